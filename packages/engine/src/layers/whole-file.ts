import {
  closeSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { errnoOf, identityOf, isAlive, translate } from '@sandkasten/sdk/internal'
import { randomId } from '@sandkasten/sdk/provider'

/**
 * Written whole or not at all, for the owner's eyes only. Durable: there after a power cut once this resolves; who has more to bring there, and wants to wait
 * for all of it together, gives a function.
 */
export async function writeWhole(
  file: string,
  value: unknown,
  { durable, what }: { durable: boolean | ((file: string) => Promise<void>); what?: string },
): Promise<void> {
  const { pid, started = '' } = await identityOf(process.pid)
  // The name says whose it is, so that what a process leaves when it is killed is told from what one is just writing.
  const partial = path.join(path.dirname(file), `.${pid}-${started}-${randomId(8)}.partial`)
  try {
    const descriptor = openSync(partial, 'wx', 0o600)
    try {
      writeSync(descriptor, JSON.stringify(value))
      if (durable === true) fsyncSync(descriptor)
    } finally {
      closeSync(descriptor)
    }
    if (typeof durable === 'function') await durable(partial)
    renameSync(partial, file)
    if (durable) syncFolder(path.dirname(file))
  } catch (error) {
    rmSync(partial, { force: true })
    throw translate(error, what ?? `Writing ${path.basename(file)}`)
  }
}

/** Undefined when there is none. */
export function readWhole<T>(file: string): T | undefined {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw translate(error, `${path.basename(file)} cannot be read`)
  }
  try {
    return JSON.parse(text) as T
  } catch (cause) {
    throw new SandboxError('internal', `${file} is damaged.`, { cause, hint: `Remove ${file}.` })
  }
}

/** Clears away what killed processes have left half written in a folder. */
export async function tidy(folder: string): Promise<void> {
  for (const name of namesIn(folder)) {
    const [, pid, started] = /^\.(\d+)-(\d*)-[a-z2-7]+\.partial$/.exec(name) ?? []
    if (pid === undefined) continue
    if (!(await isAlive({ pid: Number(pid), ...(started ? { started } : {}) })))
      rmSync(path.join(folder, name), { force: true })
  }
}

/** The names in a folder survive a power cut. */
export function syncFolder(folder: string): void {
  const descriptor = openSync(folder, 'r')
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

/** A folder that is not there has none. */
export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return []
    throw translate(error, `${folder} cannot be read`)
  }
}
