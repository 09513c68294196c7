import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeSync } from 'node:fs'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { errnoOf, identityOf, isAlive, translate } from '@sandkasten/sdk/internal'
import { randomId } from '@sandkasten/sdk/provider'
import { namesIn } from '../read-files.ts'

/**
 * Writes the file completely or not at all, readable by its owner only. With `durable`, it survives a power cut once
 * this resolves. Pass a function to sync it together with other files.
 */
export async function writeAtomically(
  file: string,
  value: unknown,
  { durable, what }: { durable: boolean | ((file: string) => Promise<void>); what?: string },
): Promise<void> {
  const { pid, started = '' } = await identityOf(process.pid)
  // The name contains the writer, so a leftover of a killed process differs from a file that is being written.
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

/** Returns undefined if the file does not exist. */
export function readJson<T>(file: string): T | undefined {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw translate(error, `Cannot read ${path.basename(file)}`)
  }
  try {
    return JSON.parse(text) as T
  } catch (cause) {
    throw new SandboxError('internal', `${file} is damaged.`, { cause, hint: `Remove ${file}.` })
  }
}

/** Removes partial files of killed processes from a folder. */
export async function removePartials(folder: string): Promise<void> {
  for (const name of namesIn(folder)) {
    const [, pid, started] = /^\.(\d+)-(\d*)-[a-z2-7]+\.partial$/.exec(name) ?? []
    if (pid === undefined) continue
    if (!(await isAlive({ pid: Number(pid), started: started || undefined })))
      rmSync(path.join(folder, name), { force: true })
  }
}

/** Syncs a folder, so that the names in it survive a power cut. */
export function syncFolder(folder: string): void {
  const descriptor = openSync(folder, 'r')
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
