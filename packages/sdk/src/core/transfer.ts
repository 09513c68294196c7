import { SandboxError } from '../errors.ts'
import { randomId } from '../shared/ids.ts'
import type { CallOptions, SandboxFilesCore } from '../spec/index.ts'

/** Files between this machine and a sandbox. Reached only on Node; a browser gets `unsupported`. */

export async function upload(
  files: SandboxFilesCore,
  localPath: string,
  remotePath: string,
  { signal }: CallOptions,
): Promise<void> {
  const fs = nodeFs()
  const handle = await fs.promises.open(localPath, 'r').catch((cause) => {
    throw localError(localPath, cause)
  })
  const { mode } = await handle.stat()
  // The stream owns the handle now. A stream that was never read does not close itself.
  const source = handle.createReadStream({ highWaterMark: 256 * 1024 })
  try {
    await files.writeFile(remotePath, source, { mode: mode & 0o777, signal })
  } catch (cause) {
    throw SandboxError.is(cause) ? cause : localError(localPath, cause)
  } finally {
    source.destroy()
  }
}

export async function download(
  files: SandboxFilesCore,
  remotePath: string,
  localPath: string,
  { signal }: CallOptions,
): Promise<void> {
  const fs = nodeFs()
  const source = await files.readStream(remotePath, { signal })
  const partial = `${localPath}.${randomId()}.partial`
  try {
    await fs.promises.writeFile(partial, source, { signal, flag: 'wx' })
    await fs.promises.rename(partial, localPath)
  } catch (cause) {
    await fs.promises.rm(partial, { force: true })
    if (SandboxError.is(cause)) throw cause
    if (signal?.aborted)
      throw new SandboxError('aborted', 'The download was cancelled by its AbortSignal.', { cause })
    throw localError(localPath, cause)
  }
}

/** Not an import: this module must load, and bundle, where there is no Node. */
function nodeFs(): typeof import('node:fs') {
  const fs = (globalThis.process as NodeJS.Process | undefined)?.getBuiltinModule?.('node:fs')
  if (fs) return fs
  throw new SandboxError('unsupported', 'There is no file system here to transfer files from or to.', {
    hint: 'Use files.readStream() and files.writeFile() instead.',
  })
}

function localError(path: string, cause: unknown): SandboxError {
  const code = (cause as NodeJS.ErrnoException | undefined)?.code
  const message = `The file ${path} on this machine could not be used (${code ?? String(cause)}).`
  if (code === 'ENOENT')
    return new SandboxError('file_not_found', message, {
      cause,
      hint: 'Check localPath: it is a path on this machine.',
    })
  if (code === 'ENOSPC' || code === 'EDQUOT') return new SandboxError('disk_full', message, { cause })
  if (code === 'EACCES' || code === 'EPERM') return new SandboxError('permission_denied', message, { cause })
  if (code === 'EISDIR')
    return new SandboxError('is_a_directory', message, {
      cause,
      hint: 'For a whole folder, use uploadProject from @sandkasten/sdk/recipes.',
    })
  return new SandboxError('internal', message, { cause })
}
