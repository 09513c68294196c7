import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SandboxError, type SandboxErrorCode } from '../../errors.ts'

/** A private temporary folder outside of every project, removed afterwards in any case. */
export async function withTempFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'sandkasten-'))
  try {
    await chmod(folder, 0o700)
    return await work(folder)
  } catch (error) {
    throw hostError(error)
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 })
  }
}

/** Translates an error of the local file system to a SandboxError; returns other errors unchanged. */
function hostError(error: unknown): unknown {
  const { code, name, path } = error as NodeJS.ErrnoException
  if (SandboxError.is(error) || typeof code !== 'string') return error
  if (name === 'AbortError')
    return new SandboxError('aborted', 'The call was cancelled by its AbortSignal.', { cause: error })
  const known = codes[code]
  if (!known) return error
  const [ours, hint] = known
  return new SandboxError(ours, `On this machine, ${path ?? 'a file'} could not be used (${code}).`, {
    hint,
    cause: error,
  })
}

const space = `Free space on the disk of ${tmpdir()}, or set TMPDIR to a folder on a larger one.`
const rights = 'Make the files of projectDir readable for this user, or ignore them in .gitignore.'
const codes: Readonly<Record<string, [SandboxErrorCode, string]>> = {
  ENOSPC: ['disk_full', space],
  EDQUOT: ['disk_full', space],
  EACCES: ['permission_denied', rights],
  EPERM: ['permission_denied', rights],
}
