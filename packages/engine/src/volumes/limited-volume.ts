import { execFile } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, rmSync, statfsSync, truncateSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { SandboxError } from '@sandkasten/sdk'
import { translate } from '@sandkasten/sdk/internal'

const run = promisify(execFile)
const programs = '/usr/sbin:/usr/bin:/sbin:/bin'
const leastMb = 8
/** Larger files do not fit into every file system. */
const mostMb = 16_777_216

/** Whether volumes with a size limit work here: as root, with loop devices and e2fsprogs. */
export function canLimitVolumes(): boolean {
  return (
    process.getuid?.() === 0 &&
    existsSync('/dev/loop-control') &&
    programs.split(':').some((folder) => existsSync(path.join(folder, 'mkfs.ext4')))
  )
}

export function volumeBytes(limitMb: number): number {
  if (Number.isInteger(limitMb) && limitMb >= leastMb && limitMb <= mostMb) return limitMb * 1024 * 1024
  throw new SandboxError('invalid_argument', `The limit of the volume is ${String(limitMb)} MiB.`, {
    hint: `Use a whole number from ${leastMb} to ${mostMb}.`,
  })
}

/**
 * Replaces the folder `data` of a volume that is being made by a sparse file with a file system of this size, which
 * contains `data`. The shims of sandboxes mount it (`runner/src/shim/limited_disk.rs`); this process never does.
 *
 * It has a journal, because a volume must survive a power failure, and no reserve, which only the host's root could
 * use.
 */
export async function createFileSystem(folder: string, bytes: number): Promise<void> {
  const [file, seed] = [path.join(folder, 'data.ext4'), path.join(folder, 'seed')]
  rmSync(path.join(folder, 'data'), { recursive: true })
  mkdirSync(path.join(seed, 'data'), { recursive: true })
  chmodSync(path.join(seed, 'data'), 0o777)
  writeFileSync(file, '', { mode: 0o600 })
  truncateSync(file, bytes)
  const options = ['-q', '-F', '-m', '0', '-O', '^resize_inode', '-E', 'lazy_itable_init=1,nodiscard']
  try {
    await run('mkfs.ext4', [...options, '-d', seed, file], { env: { PATH: programs } })
  } catch (cause) {
    if (isFull(folder))
      throw translate(Object.assign(new Error('ENOSPC', { cause }), { code: 'ENOSPC' }), 'The volume')
    throw new SandboxError('unavailable', 'The file system of the volume cannot be created.', {
      cause,
      hint: 'Run: apt-get install e2fsprogs; or omit the limit of the volume.',
    })
  }
  rmSync(seed, { recursive: true })
}

/** Checked while the draft exists, because mkfs reports only that it failed. */
function isFull(folder: string): boolean {
  const { bavail, files, ffree } = statfsSync(folder)
  return bavail === 0 || (files > 0 && ffree === 0)
}
