import { readFileSync } from 'node:fs'
import { link, readFile, rename, rm, unlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { SandboxError } from '../errors.ts'
import { randomId } from '../shared/ids.ts'
import { errnoOf, guarded, translate } from './errors.ts'

/**
 * What is known of a sandbox, as `sandbox.json` in its folder: the only truth, shared by every process that uses
 * the same `root`. It is replaced atomically, and changed only under the sandbox's lock. It holds the environment
 * variables that were given at create, so the folder is readable by its owner alone.
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

export async function readRecord(folder: string): Promise<SandboxRecord | undefined> {
  let text: string
  try {
    // Not through the thread pool: it is a page of memory, read before every command.
    text = readFileSync(path.join(folder, 'sandbox.json'), 'utf8')
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

export async function writeRecord(folder: string, record: SandboxRecord): Promise<void> {
  await replaceFile(path.join(folder, 'sandbox.json'), JSON.stringify(record))
}

/** Whole or not at all, and for the owner's eyes only. */
export async function replaceFile(file: string, content: string | Uint8Array): Promise<void> {
  const partial = `${file}.${randomId(8)}`
  await guarded(`Writing ${path.basename(file)}`, async () => {
    try {
      await writeFile(partial, content, { mode: 0o600, flag: 'wx' })
      await rename(partial, file)
    } catch (error) {
      await rm(partial, { force: true })
      throw error
    }
  })
}

/** One at a time, across processes. The lock of a process that died is taken over. */
export async function withLock<T>(file: string, work: () => Promise<T>): Promise<T> {
  const mine = JSON.stringify(await identityOf(process.pid))
  for (let waited = 0; !(await tryLock(file, mine)); waited += 1)
    await new Promise((resolve) => setTimeout(resolve, Math.min(waited + 1, 20)))
  try {
    return await work()
  } finally {
    await rm(file, { force: true })
  }
}

/** A link appears with its content or not at all, and fails when the name is taken. */
async function tryLock(file: string, mine: string): Promise<boolean> {
  const own = `${file}.${randomId(8)}`
  try {
    await writeFile(own, mine, { mode: 0o600 })
    await link(own, file)
    return true
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw translate(error, `The lock ${path.basename(file)} cannot be taken`)
  } finally {
    await rm(own, { force: true })
  }
  const holder = await readFile(file, 'utf8').catch(() => undefined)
  if (holder !== undefined && !(await isAlive(parseJson(holder, file) as ProcessIdentity))) {
    // Renamed before it is removed, so that of two who find it dead only one succeeds.
    await rename(file, own)
      .then(() => unlink(own))
      .catch(() => {})
  }
  return false
}

export async function identityOf(pid: number): Promise<ProcessIdentity> {
  const started = await startTime(pid)
  return started === undefined ? { pid } : { pid, started }
}

export async function isAlive(identity: ProcessIdentity | undefined): Promise<boolean> {
  if (!identity) return false
  try {
    process.kill(identity.pid, 0)
  } catch (error) {
    if (errnoOf(error) === 'ESRCH') return false
  }
  return identity.started === undefined || identity.started === (await startTime(identity.pid))
}

/** Field 22 of /proc/PID/stat; the name before it may hold spaces and parentheses. A zombie has ended. */
async function startTime(pid: number): Promise<string | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined)
  const fields = text?.slice(text.lastIndexOf(')') + 2).split(' ')
  return fields?.[0] === 'Z' ? undefined : fields?.[19]
}

function parseJson(text: string, where: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new SandboxError('internal', `The record in ${where} is damaged.`, {
      cause,
      hint: 'Remove that folder.',
    })
  }
}
