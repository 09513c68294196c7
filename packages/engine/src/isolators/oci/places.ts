import { statSync } from 'node:fs'
import { join } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import type { SandboxPlace } from '../isolator.ts'

/**
 * ```text
 * <folder>/                 the sandbox's own, kept while it is stopped; root only
 *   range                   the first id of its range
 *   disk/upper, disk/work   the overlay's writable side, with the owners that the sandbox sees
 *   disk.ext4               instead, if the disk has a limit: a file system with these two in it
 *   shim.json               the identity of its shim, while it runs
 *   end.json                how its last incarnation ended
 * <run>/                    short, because a socket's path has 107 bytes; gone after a reboot
 *   shim.log                defects of launchers and shims; normally empty
 *   stage/                  empty: each shim mounts its own over it, in its own mount namespace
 *   <id>/shim.sock          the shim
 *   <id>/runner.sock        the runner inherits this socket; no sandbox sees this folder
 * ```
 */
export interface Places {
  readonly folder: string
  readonly range: string
  readonly disk: string
  readonly limitedDisk: string
  readonly upper: string
  readonly work: string
  readonly state: string
  readonly end: string
  readonly run: string
  readonly witness: string
  readonly socket: string
}

const MAX_SOCKET_PATH = 107

export function placesOf({ sandboxId, folder }: SandboxPlace, runFolder: string): Places {
  // The id is a file name, a control group's name and crun's name.
  if (!/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/.test(sandboxId)) {
    throw new SandboxError(
      'invalid_argument',
      `sandboxId: '${sandboxId}' is not 1 to 64 letters, digits, '-', '_' or '.'`,
    )
  }
  if (!folder.startsWith('/')) throw new SandboxError('invalid_argument', 'folder: must be an absolute path')
  const run = join(runFolder, sandboxId)
  const [witness, socket] = [join(run, 'shim.sock'), join(run, 'runner.sock')]
  if (Buffer.byteLength(socket) > MAX_SOCKET_PATH) {
    throw new SandboxError('invalid_argument', `runFolder: ${runFolder} is too long for a socket in it`)
  }
  const disk = join(folder, 'disk')
  return {
    folder,
    range: join(folder, 'range'),
    disk,
    limitedDisk: join(folder, 'disk.ext4'),
    upper: join(disk, 'upper'),
    work: join(disk, 'work'),
    state: join(folder, 'shim.json'),
    end: join(folder, 'end.json'),
    run,
    witness,
    socket,
  }
}

/** Identifies a run folder, because the next incarnation reuses the name. Undefined if it does not exist. */
export function lifeOf({ run }: Places): string | undefined {
  const stats = statSync(run, { bigint: true, throwIfNoEntry: false })
  return stats && `${stats.ino} ${stats.birthtimeNs}`
}
