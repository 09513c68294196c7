import {
  linkSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import type { CreateSpec } from '../core/driver.ts'
import { SandboxError } from '../errors.ts'
import { randomId } from '../shared/ids.ts'
import { errnoOf, translate } from './errors.ts'
import { halfOf, readHalves, writeHalf } from './halves.ts'

/**
 * What is known of a sandbox, as `sandbox.json` in its folder: the only truth, shared by every process that uses
 * the same `root`. It is changed as a whole or not at all (`halves.ts`), and only under the sandbox's lock. It holds the environment
 * variables that were given at create, so the folder is readable by its owner alone.
 *
 * The small file operations here are synchronous: each is a few microseconds of memory, before every command, and the
 * thread pool would cost many times that.
 */
export interface SandboxRecord {
  readonly version: 1
  readonly sandboxId: string
  readonly name?: string
  readonly label?: string
  readonly labels: Readonly<Record<string, string>>
  readonly envVars: Readonly<Record<string, string>>
  readonly createdAt: number
  readonly lifetimeMs?: number
  readonly status: 'creating' | 'running' | 'paused' | 'stopped'
  /** New at every start; a handle that remembers another one is out of date. */
  readonly incarnation: string
  readonly expiresAt?: number
  /** Somebody has begun to remove it: it is gone for everybody, and whoever sweeps finishes that. */
  readonly leaving?: true
  /** Its last life ended without being asked to. */
  readonly crashed?: true
  /** What only the provider that made it knows about. */
  readonly extra?: Readonly<Record<string, unknown>>
  /** Who is creating it, so that a creator that died can be told from one that is slow. */
  readonly creator?: ProcessIdentity
}

export interface ProcessIdentity {
  readonly pid: number
  /** Told apart from a later process with the same number; undefined where the system does not say. */
  readonly started?: string
}

/** Of a sandbox that is about to be made, by this process. */
export async function newRecord(spec: CreateSpec, extra: SandboxRecord['extra']): Promise<SandboxRecord> {
  const { name, label, labels, envVars, lifetimeMs } = spec
  const createdAt = Date.now()
  return {
    version: 1,
    sandboxId: randomId(),
    ...(name === undefined ? {} : { name }),
    ...(label === undefined ? {} : { label }),
    labels,
    envVars,
    createdAt,
    ...(lifetimeMs === undefined ? {} : { lifetimeMs, expiresAt: createdAt + lifetimeMs }),
    status: 'creating',
    incarnation: randomId(),
    ...(extra ? { extra } : {}),
    creator: await identityOf(process.pid),
  }
}

export async function readRecord(folder: string): Promise<SandboxRecord | undefined> {
  let text: string
  try {
    text = readHalves(path.join(folder, 'sandbox.json'))
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return undefined
    throw translate(error, `The sandbox’s record in ${folder} cannot be read`)
  }
  const record = parseJson(text, folder) as SandboxRecord
  if (record.version === 1) return record
  throw new SandboxError(
    'unsupported',
    `The sandbox in ${folder} was made by a newer version (record ${String(record.version)}).`,
    {
      hint: 'Update @sandkasten/sdk.',
    },
  )
}

/**
 * First: before whatever is done to the sandbox's folder next, also in what a power cut leaves. A file system puts new names in order with the rest, but
 * not what is written in a file's place.
 */
export async function writeRecord(
  folder: string,
  record: SandboxRecord,
  { first = false }: { first?: boolean } = {},
): Promise<void> {
  const file = path.join(folder, 'sandbox.json')
  const text = JSON.stringify(record)
  const what = 'The sandbox’s record could not be written'
  try {
    if (!first && writeHalf(file, text)) return
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw translate(error, what)
  }
  await replaceFile(file, halfOf(text) ?? text, what)
}

/** Whole or not at all, and for the owner's eyes only. */
export async function replaceFile(
  file: string,
  content: string | Uint8Array,
  what = `Writing ${path.basename(file)}`,
): Promise<void> {
  const partial = `${file}.${randomId(8)}`
  try {
    writeFileSync(partial, content, { mode: 0o600, flag: 'wx' })
    renameSync(partial, file)
  } catch (error) {
    rmSync(partial, { force: true })
    throw translate(error, what)
  }
}

let ownIdentity: string | undefined

/** One at a time, across processes. The lock of a process that died is taken over. */
export async function withLock<T>(file: string, work: () => Promise<T>): Promise<T> {
  ownIdentity ??= JSON.stringify(await identityOf(process.pid))
  const mine = ownIdentity
  for (let waited = 0; !(await tryLock(file, mine)); waited += 1)
    await new Promise((resolve) => setTimeout(resolve, Math.min(waited + 1, 20)))
  try {
    return await work()
  } finally {
    unlinkIfThere(file)
  }
}

async function tryLock(file: string, mine: string): Promise<boolean> {
  try {
    if (place(file, mine)) return true
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
function place(file: string, mine: string): boolean {
  const own = `${file}.${randomId(8)}`
  try {
    if (process.platform !== 'win32') symlinkSync(mine, file)
    else {
      writeFileSync(own, mine, { mode: 0o600 })
      linkSync(own, file)
    }
    return true
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return false
    throw error
  } finally {
    if (process.platform === 'win32') unlinkIfThere(own)
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

/** Clears away what processes have left that were killed while they tried to take a lock in this folder. */
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

export async function identityOf(pid: number): Promise<ProcessIdentity> {
  const started = startTime(pid)
  return started === undefined ? { pid } : { pid, started }
}

export async function isAlive(identity: ProcessIdentity | undefined): Promise<boolean> {
  if (!identity) return false
  try {
    process.kill(identity.pid, 0)
  } catch (error) {
    if (errnoOf(error) === 'ESRCH') return false
  }
  return identity.started === undefined || identity.started === startTime(identity.pid)
}

/** Field 22 of /proc/PID/stat; the name before it may hold spaces and parentheses. A zombie has ended. */
function startTime(pid: number): string | undefined {
  const text = readOr(`/proc/${pid}/stat`)
  const fields = text?.slice(text.lastIndexOf(')') + 2).split(' ')
  return fields?.[0] === 'Z' ? undefined : fields?.[19]
}

function unlinkIfThere(file: string): void {
  try {
    unlinkSync(file)
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw translate(error, `${path.basename(file)} cannot be removed`)
  }
}

function readOr(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

/** Whether the record is there, and none. */
export function isDamaged(error: unknown): boolean {
  return SandboxError.is(error) && error.details.damaged === true
}

function parseJson(text: string, where: string): object {
  let value: unknown
  let cause: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    cause = error
  }
  if (typeof value === 'object' && value !== null) return value
  throw new SandboxError('internal', `The record in ${where} is damaged.`, {
    cause,
    details: { damaged: true },
    hint: 'Put its file back from a backup; or destroy that sandbox.',
  })
}
