import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { promisify } from 'node:util'
import type { IdRanges } from './ids.ts'
import type { Places } from './places.ts'

/**
 * A sandbox's disk: the writable side of its overlay. Its files have the owners that the sandbox sees, 0 to 65535; the shim maps them to the
 * sandbox's range. So what root of a sandbox owns belongs to root out here, setuid programs included: the folder is closed to everybody else.
 *
 * What is in `upper` is hostile once a sandbox has run on it (a link called `etc` to the host's `/etc`), and we are root. So nothing is ever written
 * into it from here: it starts empty, is mounted as it is, and at the end removed as a whole.
 */

/** The first id of the sandbox's range: the one it had, or a new one. */
export function rangeOf(places: Places, ranges: IdRanges): number {
  const known = readRange(places)
  if (known !== undefined && ranges.holds(known, places.folder)) return known
  const first = ranges.take(places.folder)
  writeFileSync(places.range, String(first), { mode: 0o600 })
  return first
}

export function readRange(places: Places): number | undefined {
  try {
    const first = Number(readFileSync(places.range, 'utf8'))
    return Number.isInteger(first) && first > 0 ? first : undefined
  } catch {
    return undefined
  }
}

/** Makes it, or makes it ready for another life. */
export function prepareDisk({ disk, upper, work }: Places): void {
  if (makeFolder(disk, 0o700)) {
    makeFolder(upper, 0o755)
    makeFolder(work, 0o700)
    return
  }
  makeFolder(upper, 0o755)
  // Left by the last mount; overlayfs refuses what a volatile one leaves there. The sandbox never sees this folder.
  rmSync(work, { recursive: true, force: true })
  makeFolder(work, 0o700)
}

/** False when it was there. */
function makeFolder(path: string, mode: number): boolean {
  try {
    mkdirSync(path, { mode })
    // Whatever the umask: what `upper` allows is what the sandbox's own root folder allows.
    chmodSync(path, mode)
    return true
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw cause
  }
}

/** By `rm`: it follows no link, minds no depth (a path in there may be longer than the kernel takes), and blocks nobody. */
export async function removeTree(...paths: string[]): Promise<void> {
  await promisify(execFile)('/bin/rm', ['-rf', '--one-file-system', '--', ...paths])
}
