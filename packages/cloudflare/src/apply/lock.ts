/**
 * Allows one writer at a time. The lock is a file beside the config with the writer's process id. A lock whose
 * process is gone (Ctrl-C, a crash) is taken over immediately; a lock of another machine, on a shared disk, after a
 * minute.
 */
import { randomUUID } from 'node:crypto'
import { existsSync, linkSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { CloudflareSyncError } from '../problem.ts'
import { isSystemError, readIfThere } from './write.ts'

const WAIT_MS = 20
const FOREIGN_LOCK_MS = 60_000

/** Runs `work` while holding the lock of this config. Waits, and throws after `timeoutMs`. */
export async function withLock<T>(
  config: string,
  work: () => T | Promise<T>,
  timeoutMs = 15_000,
): Promise<T> {
  const lock = join(dirname(config), `.${basename(config)}.lock`)
  const token = JSON.stringify({ pid: process.pid, host: hostname(), id: randomUUID() })
  const deadline = Date.now() + timeoutMs
  while (!tryLock(lock, token)) {
    takeOverIfDead(lock)
    if (Date.now() > deadline) {
      const message = 'another sandkasten process holds this lock'
      const fix = 'wait for it, or remove the lock file if that process is gone'
      throw new CloudflareSyncError([
        { severity: 'error', code: 'locked', message, place: { file: lock }, fix },
      ])
    }
    await sleep(WAIT_MS)
  }
  try {
    removeLeftovers(config)
    return await work()
  } finally {
    if (readIfThere(lock) === token) rmSync(lock, { force: true })
  }
}

function tryLock(lock: string, token: string): boolean {
  // Written completely under another name first, so that an existing lock always names its owner.
  const draft = `${lock}.${process.pid}.${randomUUID()}`
  try {
    writeFileSync(draft, token, { flag: 'wx' })
    linkSync(draft, lock)
    return true
  } catch (error) {
    if (isSystemError(error) && error.code === 'EEXIST') return false
    if (!isSystemError(error)) throw error
    const message = `cannot create the lock: ${error.message}`
    const fix = 'check the permissions of the folder'
    throw new CloudflareSyncError([
      { severity: 'error', code: 'not-writable', message, place: { file: lock }, fix },
    ])
  } finally {
    rmSync(draft, { force: true })
  }
}

function takeOverIfDead(lock: string): void {
  const held = readIfThere(lock)
  if (held === undefined || !isDead(held, lock)) return
  const aside = `${lock}.${process.pid}.dead`
  try {
    renameSync(lock, aside)
    // Two processes may have seen the same dead lock; if this one moved a live lock, put it back.
    if (readIfThere(aside) !== held && !existsSync(lock)) linkSync(aside, lock)
  } catch (error) {
    if (!isSystemError(error) || (error.code !== 'ENOENT' && error.code !== 'EEXIST')) throw error
  } finally {
    rmSync(aside, { force: true })
  }
}

function isDead(held: string, lock: string): boolean {
  let owner: { pid?: number; host?: string }
  try {
    owner = JSON.parse(held)
  } catch {
    return true
  }
  if (owner.host !== hostname()) return Date.now() - statSync(lock).mtimeMs > FOREIGN_LOCK_MS
  try {
    process.kill(Number(owner.pid), 0)
    return false
  } catch (error) {
    return isSystemError(error) && error.code === 'ESRCH'
  }
}

/** While we hold the lock, any temporary file is a leftover of an interrupted writer. */
function removeLeftovers(config: string): void {
  const folder = dirname(config)
  const stem = basename(config).replace(/\.(jsonc?|toml)$/, '')
  for (const name of readdirSync(folder)) {
    if (name.startsWith(`.${stem}.`) && /\.\d+\.tmp$/.test(name)) rmSync(join(folder, name), { force: true })
  }
}
