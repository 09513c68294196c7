import { realpath, stat } from 'node:fs/promises'
import { posix, resolve } from 'node:path'
import { SandboxError } from '../errors.ts'
import type { RecipeSandbox } from './types.ts'

/** Rejects unknown options, so that a typo is not ignored. */
export function checkOptions(options: unknown, known: readonly string[], call: string): void {
  if (typeof options !== 'object' || options === null) throw invalid(`${call} takes an object of options.`)
  for (const key of Object.keys(options)) {
    if (!known.includes(key))
      throw invalid(`${call} has no option \`${key}\`.`, `It takes: ${known.join(', ')}.`)
  }
}

export async function checkProjectDir(projectDir: unknown): Promise<string> {
  if (typeof projectDir !== 'string' || projectDir === '' || projectDir.includes('\0')) {
    throw invalid('`projectDir` must be the path of a folder on this machine.')
  }
  const hint = 'Set projectDir to the path of a readable folder on this machine.'
  try {
    const real = await realpath(resolve(projectDir))
    if ((await stat(real)).isDirectory()) return real
  } catch (cause) {
    const denied = ['EACCES', 'EPERM'].includes((cause as NodeJS.ErrnoException).code ?? '')
    const code = denied ? 'permission_denied' : 'file_not_found'
    throw new SandboxError(code, `The projectDir ${projectDir} cannot be opened.`, { hint, cause })
  }
  throw new SandboxError('not_a_directory', `The projectDir ${projectDir} is not a folder.`, { hint })
}

/** The absolute path in the sandbox for an option; default: the working directory. */
export function remoteFolder(sandbox: RecipeSandbox, path: unknown, option = 'remotePath'): string {
  if (path === undefined) return sandbox.workdir
  if (typeof path !== 'string' || path === '' || path.includes('\0'))
    throw invalid(`\`${option}\` must be a non-empty string.`)
  const absolute = path.startsWith('/') || /^[a-z]:[\\/]/i.test(path)
  const joined = absolute ? path : posix.join(sandbox.workdir, path)
  return joined.length > 1 ? joined.replace(/\/+$/, '') : joined
}

export function checkLimit(value: unknown, option: string, otherwise: number): number {
  if (value === undefined) return otherwise
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 1) return value
  throw invalid(`\`${option}\` is ${String(value)}.`, `Use a whole number of 1 or more, or omit ${option}.`)
}

export function invalid(message: string, hint?: string): SandboxError {
  return new SandboxError('invalid_argument', message, hint === undefined ? {} : { hint })
}
