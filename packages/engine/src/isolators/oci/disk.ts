import { execFile } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { SandboxError } from '@sandkasten/sdk'
import type { IsolatorSpec } from '../isolator.ts'
import { SANDBOX_USER } from './config.ts'
import type { IdRanges } from './ids.ts'
import { hostNameservers, resolvConf } from './network.ts'
import type { Places } from './places.ts'

/**
 * A sandbox's disk: the writable side of its overlay, which belongs to its id range.
 *
 * What is in `upper` is hostile once a sandbox has run on it (a link called `etc` to the host's `/etc`), and we are root. So it is filled
 * only while it is new, under a name that no sandbox has been given yet; later it is mounted as it is, and at the end removed as a whole.
 */

/** The first id of the sandbox's range: the one that its disk belongs to, or a new one. */
export function rangeOf(places: Places, ranges: IdRanges): number {
  const known = readRange(places)
  if (known !== undefined) {
    if (ranges.holds(known, places.folder)) return known
    throw new SandboxError(
      'internal',
      `${places.range} names id range ${known}, which belongs to somebody else`,
      {
        hint: 'Destroy this sandbox: its files cannot be given to another range safely.',
      },
    )
  }
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
export function prepareDisk(places: Places, spec: IsolatorSpec, first: number): void {
  if (existsSync(places.disk)) {
    // Left by the last mount; overlayfs refuses what a volatile one leaves there. The sandbox never sees this folder.
    rmSync(places.work, { recursive: true, force: true })
    mkdirSync(places.work, { mode: 0o700 })
    chownSync(places.work, first, first)
    return
  }
  const draft = `${places.disk}.new`
  rmSync(draft, { recursive: true, force: true })
  mkdirSync(draft, { mode: 0o700 })
  const make = (path: string, owner: number, mode = 0o755) => {
    mkdirSync(join(draft, path))
    chownSync(join(draft, path), owner, owner)
    // Whatever this process's umask: the sandbox's user walks through these.
    chmodSync(join(draft, path), mode)
  }
  make('upper', first)
  make('work', first, 0o700)
  make('upper/etc', first)
  const files = {
    hostname: `${spec.hostname}\n`,
    hosts: `127.0.0.1 localhost\n::1 localhost\n127.0.1.1 ${spec.hostname}\n`,
    'resolv.conf': resolvConf(spec.network, hostNameservers()),
  }
  for (const [name, text] of Object.entries(files)) {
    const path = join(draft, 'upper/etc', name)
    writeFileSync(path, text)
    chownSync(path, first, first)
    chmodSync(path, 0o644)
  }
  // An image of the store has it, with the owners and modes of the folders that lead to it.
  const isThere = typeof spec.image === 'object' && 'layers' in spec.image
  let path = 'upper'
  for (const [index, part] of isThere ? [] : spec.workdir.split('/').filter(Boolean).entries()) {
    path = join(path, part)
    if (path === 'upper/etc') continue
    // `/home` is the system's, `/home/sandbox/project` the user's.
    const owner = index === 0 && spec.workdir.indexOf('/', 1) > 0 ? first : first + SANDBOX_USER
    make(path, owner)
  }
  renameSync(draft, places.disk)
}

/** By `rm`: it follows no link, minds no depth (a path in there may be longer than the kernel takes), and blocks nobody. */
export async function removeTree(...paths: string[]): Promise<void> {
  await promisify(execFile)('/bin/rm', ['-rf', '--one-file-system', '--', ...paths])
}
