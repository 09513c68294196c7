import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { CreateSpec } from '../core/driver.ts'
import { SandboxError } from '../errors.ts'
import { randomId } from '../shared/ids.ts'
import { checksummed, readChecksummed, writeChecksummed } from './checksummed-record.ts'
import { errnoOf, translate } from './errors.ts'

/**
 * The state of a sandbox: `sandbox.json` in its folder, shared by all processes that use the same `root`. It changes
 * atomically (`checksummed-record.ts`) and only under the sandbox's lock. It contains the environment variables of the
 * sandbox, so only the owner can read the folder.
 *
 * The file operations here are synchronous: each takes microseconds, and the thread pool would cost many times that.
 */
export interface SandboxRecord {
  readonly version: 1
  readonly sandboxId: string
  readonly name?: string
  readonly label?: string
  readonly labels: Readonly<Record<string, string>>
  readonly envVars: Readonly<Record<string, string>>
  readonly ports?: readonly number[]
  readonly createdAt: number
  readonly lifetimeMs?: number
  readonly status: 'creating' | 'running' | 'paused' | 'stopped'
  /** New at every start. A handle with another value is stale. */
  readonly incarnation: string
  readonly expiresAt?: number
  /** The removal has begun: the sandbox counts as gone, and `sweep()` finishes an interrupted removal. */
  readonly leaving?: true
  /** The last incarnation ended unexpectedly. */
  readonly crashed?: true
  readonly extra?: Readonly<Record<string, unknown>>
  /** The creating process, to tell a dead creator from a slow one. */
  readonly creator?: ProcessIdentity
}

export interface ProcessIdentity {
  readonly pid: number
  /** The start time, to tell this process from a later one with the same pid; undefined where unknown. */
  readonly started?: string
}

/** The record of a sandbox that this process is about to create. */
export async function newRecord(
  sandboxId: string,
  spec: CreateSpec,
  extra: SandboxRecord['extra'],
): Promise<SandboxRecord> {
  const { name, label, labels, envVars, ports, lifetimeMs } = spec
  const createdAt = Date.now()
  return {
    version: 1,
    sandboxId,
    name,
    label,
    labels,
    envVars,
    ports,
    createdAt,
    lifetimeMs,
    expiresAt: lifetimeMs && createdAt + lifetimeMs,
    status: 'creating',
    incarnation: randomId(),
    extra,
    creator: await identityOf(process.pid),
  }
}

export async function readRecord(folder: string): Promise<SandboxRecord | undefined> {
  let text: string
  try {
    text = readChecksummed(path.join(folder, 'sandbox.json'))
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return undefined
    throw translate(error, `The sandbox’s record in ${folder} cannot be read`)
  }
  const record = parseJson(text, folder) as SandboxRecord
  if (record.version === 1) return record
  throw new SandboxError(
    'unsupported',
    `The sandbox in ${folder} was created by a newer version (record ${String(record.version)}).`,
    {
      hint: 'Update @sandkasten/sdk.',
    },
  )
}

/** Writes the first record, in a folder that no other process uses yet. */
export function createRecord(folder: string, record: SandboxRecord): void {
  const text = JSON.stringify(record)
  writeFileSync(path.join(folder, 'sandbox.json'), checksummed(text) ?? text, { mode: 0o600, flag: 'wx' })
}

/**
 * With `first`, the record reaches the disk before later changes of the folder, also after a power cut: the file is
 * replaced, because file systems order renames but not writes in place.
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
    if (!first && writeChecksummed(file, text)) return
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw translate(error, what)
  }
  await replaceFile(file, checksummed(text) ?? text, what)
}

/** Writes atomically; only the owner can read the file. */
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

export async function identityOf(pid: number): Promise<ProcessIdentity> {
  if (pid !== process.pid) return lookUp(pid)
  own ??= lookUp(pid)
  return own
}

/** The identity of this process never changes. */
let own: ProcessIdentity | undefined

function lookUp(pid: number): ProcessIdentity {
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

/** Undefined when it cannot be read. */
export function readOr(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

/** Whether the error says that a record exists but cannot be parsed. */
export function isDamaged(error: unknown): boolean {
  return SandboxError.is(error) && error.details.damaged === true
}

export function parseJson(text: string, where: string): object {
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
    hint: 'Restore the file from a backup, or destroy the sandbox.',
  })
}
