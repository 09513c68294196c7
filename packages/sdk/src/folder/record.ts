import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { CreateSpec } from '../core/driver.ts'
import { SandboxError } from '../errors.ts'
import { randomId } from '../shared/ids.ts'
import { checksummed, readChecksummed, writeChecksummed } from './checksummed-record.ts'
import { errnoOf, translate } from './errors.ts'

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
export async function newRecord(
  sandboxId: string,
  spec: CreateSpec,
  extra: SandboxRecord['extra'],
): Promise<SandboxRecord> {
  const { name, label, labels, envVars, lifetimeMs } = spec
  const createdAt = Date.now()
  return {
    version: 1,
    sandboxId,
    name,
    label,
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
    text = readChecksummed(path.join(folder, 'sandbox.json'))
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

/** The first, in a folder that nobody else knows yet. */
export function createRecord(folder: string, record: SandboxRecord): void {
  const text = JSON.stringify(record)
  writeFileSync(path.join(folder, 'sandbox.json'), checksummed(text) ?? text, { mode: 0o600, flag: 'wx' })
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
    if (!first && writeChecksummed(file, text)) return
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw translate(error, what)
  }
  await replaceFile(file, checksummed(text) ?? text, what)
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

export async function identityOf(pid: number): Promise<ProcessIdentity> {
  if (pid !== process.pid) return lookUp(pid)
  own ??= lookUp(pid)
  return own
}

/** This process's own, which does not change. */
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

/** Whether the record is there, and none. */
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
    hint: 'Put its file back from a backup; or destroy that sandbox.',
  })
}
