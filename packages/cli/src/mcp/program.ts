import { existsSync } from 'node:fs'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'

/** Starts this program again, as another process. */
export function thisProgram(...args: string[]): string[] {
  const file = process.argv[1]
  if (file === undefined) throw new SandboxError('internal', 'The path of this program is unknown.')
  return [process.execPath, ...process.execArgv, file, ...args]
}

/** The program for a configuration that others may share: by its name, if it is on PATH. */
export function sharedProgram(...args: string[]): string[] {
  const folders = (process.env.PATH ?? '').split(path.delimiter).filter(path.isAbsolute)
  const isInstalled = folders.some((folder) => existsSync(path.join(folder, 'sandkasten')))
  return isInstalled ? ['sandkasten', ...args] : thisProgram(...args)
}

/** A sandbox as the options name it. */
export interface SandboxChoice {
  sandbox?: string
  providerSandbox?: string
}

/** The name under which its token is saved. */
export function savedName({ sandbox, providerSandbox }: SandboxChoice): string {
  if (sandbox !== undefined) return sandbox
  if (providerSandbox !== undefined) return `id:${providerSandbox}`
  throw new SandboxError('invalid_argument', 'No sandbox was named.', {
    hint: 'Add --sandbox NAME; sandkasten sandbox list shows the names.',
  })
}
