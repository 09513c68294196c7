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
 * One at a time, across processes. The lock of a process that died is taken over. With `seals`, a folder on the same disk, a lock costs no inode (see `seal`):
 * for locks that many take.
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
    takeAway(file, holder)
  return false
}

/**
 * A lock appears with its holder's name or not at all; false when there is one. It is a symbolic link that leads nowhere: a text this short is kept in the
 * link itself, so a lock can be taken on a full disk, by somebody who is about to free some of it. Windows lets few people make links of that kind.
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

/** This process's own link in each folder: its locks are second names of that. */
const links = new Map<string, string>()

/**
 * A second name of a link that is there already: no inode is made, and none is left behind when the lock goes. False where that cannot be had. The link is
 * removed when this process ends, or by whoever sweeps.
 */
function seal(file: string, mine: string, seals: string): boolean {
  try {
    let own = links.get(seals)
    if (own === undefined) {
      own = path.join(seals, `lock.${randomId(8)}`)
      symlinkSync(mine, own)
      if (links.size === 0) process.once('exit', () => [...links.values()].forEach(unlinkIfPossible))
      links.set(seals, own)
    }
    linkSync(own, file)
    return true
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') throw error
    // Somebody removed it, or this disk does not know second names.
    const own = links.get(seals)
    if (own !== undefined && !lstatSync(own, { throwIfNoEntry: false })) links.delete(seals)
    return false
  }
}

/** Undefined when nobody holds it (any more). Earlier versions wrote files. */
function holderOf(file: string): string | undefined {
  try {
    return readlinkSync(file)
  } catch {
    return readOr(file)
  }
}

/** Clears away what processes have left in this folder that were killed while they tried to take a lock, or had a link for their locks there. */
export async function sweepLocks(folder: string): Promise<void> {
  for (const name of readdirSync(folder).filter((name) => /^lock\.[a-z2-7]{8}$/.test(name))) {
    const file = path.join(folder, name)
    const holder = holderOf(file)
    // Empty: killed, or just now writing, who he is.
    const alive = holder ? await isAlive(JSON.parse(holder) as ProcessIdentity) : isNew(file)
    if (!alive) unlinkIfThere(file)
  }
}

function isNew(file: string): boolean {
  const stats = statSync(file, { throwIfNoEntry: false })
  // A clock that was set back shows files that are yet to be written: those are not new.
  return stats !== undefined && Math.abs(Date.now() - stats.mtimeMs) < 10_000
}

/** Removes a dead holder's lock. Renamed first: of two who find it dead only one succeeds, and a new one is put back. */
function takeAway(file: string, dead: string): void {
  const own = `${file}.${randomId(8)}`
  try {
    renameSync(file, own)
    const taken = holderOf(own)
    if (taken !== undefined && taken !== dead) place(file, taken)
    unlinkIfThere(own)
  } catch {
    // Somebody else was faster; the next try finds out how things are.
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
    // Whoever sweeps finds it.
  }
}
