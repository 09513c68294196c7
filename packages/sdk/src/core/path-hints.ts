import { errorTable, SandboxError } from '../errors.ts'
import { refusedWriteHint } from '../shared/errno-hint.ts'
import { override } from '../shared/override.ts'
import type { FilesDriver, SandboxDriver } from './driver.ts'

/**
 * The files of a driver, whose refused writes have a hint for the path if the driver gave none. The usual hint advises
 * `chmod`, which does not help in a folder that only root may write to.
 */
export function withPathHints({ files, workdir, writablePaths }: SandboxDriver): FilesDriver {
  if (!writablePaths) return files
  const hinted = async <T>(path: string, work: Promise<T>): Promise<T> => {
    try {
      return await work
    } catch (error) {
      if (!SandboxError.is(error, 'permission_denied') || error.hint !== usual) throw error
      throw withHint(error, refusedWriteHint(absolute(workdir, path), writablePaths))
    }
  }
  const { shareFile } = files
  return override<FilesDriver>(files, {
    ...(shareFile && {
      shareFile: (file, path, call) => hinted(path, shareFile.call(files, file, path, call)),
    }),
    write: (path, ...rest) => hinted(path, files.write(path, ...rest)),
    mkdir: (path, ...rest) => hinted(path, files.mkdir(path, ...rest)),
    rename: (from, to, ...rest) => hinted(to, files.rename(from, to, ...rest)),
    rm: (path, ...rest) => hinted(path, files.rm(path, ...rest)),
    symlink: (target, path, ...rest) => hinted(path, files.symlink(target, path, ...rest)),
  })
}

const usual = errorTable.permission_denied.hint

function withHint(error: SandboxError, hint: string): SandboxError {
  const { code, message, retryable, provider, sandboxId, requestId, details, cause } = error
  return new SandboxError(code, message, { hint, retryable, provider, sandboxId, requestId, details, cause })
}

function absolute(workdir: string, path: string): string {
  const parts: string[] = []
  for (const part of (path.startsWith('/') ? path : `${workdir}/${path}`).split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '' && part !== '.') parts.push(part)
  }
  return `/${parts.join('/')}`
}
