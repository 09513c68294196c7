import {
  linkSync,
  lstatSync,
  readdirSync,
  readlinkSync,
  renameSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { randomId } from '../shared/ids.ts'
import { errnoOf, translate } from './errors.ts'
import { identityOf, isAlive, type ProcessIdentity, parseJson, readOr } from './record.ts'

let ownIdentity: string | undefined

/**
 * Runs `work` while holding an exclusive lock that works across processes. A lock whose owner has died is taken over.
 * With `seals`, a folder on the same disk, a lock needs no inode (see `seal`); use it for locks that are taken often.
 */
export async function withLock<T>(file: string, work: () => Promise<T>, seals?: string): Promise<T> {
  ownIdentity ??= JSON.stringify(await identityOf(process.pid))
  const mine = ownIdentity
  for (let waited = 0; !(await tryLock(file, mine, seals)); waited += 1)
    await new Promise((resolve) => setTimeout(resolve, Math.min(waited + 1, 20)))
  try {
    return await work()
  } finally {
    unlinkIfThere(file)
  }
}

async function tryLock(file: string, mine: string, seals?: string): Promise<boolean> {
  try {
    if (place(file, mine, seals)) return true
  } catch (error) {
    throw translate(error, `The lock of ${path.basename(path.dirname(file))} cannot be taken`)
  }
  const holder = holderOf(file)
  if (holder !== undefined && !(await isAlive(parseJson(holder, file) as ProcessIdentity)))
    removeStale(file, holder)
  return false
}

/**
 * Creates the lock atomically; false when it exists. It is a dangling symlink whose target is the owner's identity: it
 * needs no disk block, so a process can take it on a full disk in order to free space. On Windows, where symlinks need
 * a privilege, it is a file.
 */
function place(file: string, mine: string, seals?: string): boolean {
  const own = `${file}.${randomId(8)}`
  try {
    if (process.platform === 'win32') {
      writeFileSync(own, mine, { mode: 0o600 })
      linkSync(own, file)
    } else if (seals === undefined || !seal(file, mine, seals)) symlinkSync(mine, file)
    return true
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return false
    throw error
  } finally {
    if (process.platform === 'win32') unlinkIfThere(own)
  }
}

/** This process's own symlink in each folder. Its locks are hard links to it. */
const links = new Map<string, string>()
let exitWatched = false

/**
 * Creates the lock as a hard link to this process's own symlink, which needs no new inode. False where the file system
 * does not support it. The symlink is removed by `removeSeal`, when this process exits, or by `sweepLocks`.
 */
function seal(file: string, mine: string, seals: string): boolean {
  try {
    let own = links.get(seals)
    if (own === undefined) {
      own = path.join(seals, `lock.${randomId(8)}`)
      symlinkSync(mine, own)
      if (!exitWatched) process.once('exit', () => [...links.values()].forEach(unlinkIfPossible))
      exitWatched = true
      links.set(seals, own)
    }
    linkSync(own, file)
    return true
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') throw error
    // Our symlink was removed, or the file system has no hard links to symlinks.
    const own = links.get(seals)
    if (own !== undefined && !lstatSync(own, { throwIfNoEntry: false })) links.delete(seals)
    return false
  }
}

/** Removes this process's symlink from the folder. Held locks stay, and the next lock with these seals makes a new one. */
export function removeSeal(seals: string): void {
  const own = links.get(seals)
  links.delete(seals)
  if (own !== undefined) unlinkIfPossible(own)
}

/** The owner's identity; undefined when the lock is free. Earlier versions wrote files instead of symlinks. */
function holderOf(file: string): string | undefined {
  try {
    return readlinkSync(file)
  } catch {
    return readOr(file)
  }
}

/** Removes leftovers of processes that were killed while they used locks in this folder. */
export async function sweepLocks(folder: string): Promise<void> {
  for (const name of readdirSync(folder).filter((name) => /^lock\.[a-z2-7]{8}$/.test(name))) {
    const file = path.join(folder, name)
    const holder = holderOf(file)
    // An empty file is stale or being written right now; treat it as live for 10 seconds.
    const alive = holder ? await isAlive(JSON.parse(holder) as ProcessIdentity) : isNew(file)
    if (!alive) unlinkIfThere(file)
  }
}

function isNew(file: string): boolean {
  const stats = statSync(file, { throwIfNoEntry: false })
  // After the clock was set back, a file can have a time in the future; such a file is not new.
  return stats !== undefined && Math.abs(Date.now() - stats.mtimeMs) < 10_000
}

/** Removes a stale lock. Renaming first makes sure that only one contender succeeds; a lock that is not stale is put back. */
function removeStale(file: string, dead: string): void {
  const own = `${file}.${randomId(8)}`
  try {
    renameSync(file, own)
    const taken = holderOf(own)
    if (taken !== undefined && taken !== dead) place(file, taken)
    unlinkIfThere(own)
  } catch {
    // Another process removed it first; the caller retries.
  }
}

function unlinkIfThere(file: string): void {
  try {
    unlinkSync(file)
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw translate(error, `${path.basename(file)} cannot be removed`)
  }
}

function unlinkIfPossible(file: string): void {
  try {
    unlinkSync(file)
  } catch {
    // `sweepLocks` removes it.
  }
}
