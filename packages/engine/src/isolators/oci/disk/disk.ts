import { chmodSync, existsSync, lstatSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { SandboxError } from '@sandkasten/sdk'
import { SmallProcess } from '../../../small-process.ts'
import type { Places } from '../places.ts'
import type { IdRanges } from '../privileges/id-ranges.ts'

/**
 * A sandbox's disk: the writable side of its overlay. Its files have the owners that the sandbox sees, 0 to 65535,
 * and the shim maps them to the sandbox's range. So files of a sandbox's root, including setuid programs, belong to
 * root on the host. Therefore other users have no access to the folder.
 *
 * The content of `upper` is hostile once a sandbox has run on it (a link called `etc` to the host's `/etc`), and we
 * are root. So it is never written to from here: it starts empty, is mounted as it is, and is removed as a whole.
 */

/** The first id of the sandbox's range. A sandbox without a range gets a new one. */
export function rangeOf(places: Places, ranges: IdRanges): number {
  const known = readRange(places)
  if (known !== undefined && ranges.holds(known, places.folder)) return known
  const first = ranges.take(places.folder)
  try {
    writeFileSync(places.range, String(first), { mode: 0o600 })
  } catch (error) {
    rmSync(places.range, { force: true })
    ranges.free(first, places.folder)
    throw error
  }
  return first
}

export function readRange(places: Places): number | undefined {
  // A check costs less than an exception, and a new sandbox has no range.
  if (!existsSync(places.range)) return undefined
  try {
    const first = Number(readFileSync(places.range, 'utf8'))
    return Number.isInteger(first) && first >= 0 ? first : undefined
  } catch {
    return undefined
  }
}

/** Creates the disk, or prepares an existing disk for the next incarnation. */
export function prepareDisk({ disk, upper, work }: Places): void {
  if (makeFolder(disk, 0o700)) {
    makeFolder(upper, 0o755)
    makeFolder(work, 0o700)
    return
  }
  makeFolder(upper, 0o755)
  // Left by the last mount. overlayfs refuses the leftovers of a volatile mount. The sandbox never sees this folder.
  rmSync(work, { recursive: true, force: true })
  makeFolder(work, 0o700)
}

/** Returns false if the folder existed. */
function makeFolder(path: string, mode: number): boolean {
  try {
    mkdirSync(path, { mode })
    // Regardless of the umask: the mode of `upper` is the mode of the sandbox's root folder.
    chmodSync(path, mode)
    return true
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw cause
  }
}

/**
 * Removes whole disks through `runner tree` (`runner/src/tree/mod.rs`). Their content is hostile and of any depth,
 * and links are never followed.
 */
export class DiskRemover {
  readonly #command: readonly [string, ...string[]]
  #process: SmallProcess | undefined

  /** The command that starts `runner tree serve` with the required privileges. */
  constructor(command: readonly [string, ...string[]]) {
    this.#command = command
  }

  /** Starts the process if it does not run. */
  warm(): SmallProcess {
    const [program, ...args] = this.#command
    if (!this.#process?.alive) this.#process = new SmallProcess(program, args)
    return this.#process
  }

  async remove(...paths: string[]): Promise<void> {
    const there = paths.filter((path) => lstatSync(path, { throwIfNoEntry: false }))
    if (there.length === 0) return
    const line = await this.warm()
      .ask(['remove', ...there, ''].join('\0'))
      .catch((cause: Error) => {
        throw new SandboxError('unavailable', `cannot remove a disk: ${cause.message}`, {
          cause,
          hint: 'Check that the runner’s binary still exists. `sandkasten doctor` shows what this machine lacks.',
        })
      })
    const { error } = JSON.parse(line) as { error?: string }
    // Another process may have removed it at the same time.
    if (error !== undefined && there.some((path) => lstatSync(path, { throwIfNoEntry: false })))
      throw new SandboxError('internal', `cannot remove a disk: ${error}`)
  }

  async close(): Promise<void> {
    const process = this.#process
    this.#process = undefined
    await process?.close()
  }
}
