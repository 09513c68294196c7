/**
 * Writes atomically, and writers never overwrite each other's changes:
 *
 *   lock ──▶ read ──▶ plan ──▶ temporary file ──▶ still unchanged? ──▶ rename ──▶ unlock
 *
 * Editors ignore the lock (lock.ts), so the text is compared again just before the rename. Everything here is
 * synchronous: no other work of this process interleaves.
 */
import {
  closeSync,
  existsSync,
  fchmodSync,
  fsyncSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { CloudflareSyncError } from '../problem.ts'

/** Thrown if another program wrote the file meanwhile; the caller reads and plans again. */
export class ChangedMeanwhile extends Error {}

/** Atomically replaces a file's text if it is still `before` (undefined: if the file does not exist). */
export function replaceFile(path: string, before: string | undefined, after: string, display: string): void {
  // A linked config is written at its target and stays a link.
  const target = existsSync(path) ? realpathSync(path) : path
  const mode = existsSync(target) ? statSync(target).mode : 0o666
  if (existsSync(target) && (mode & 0o222) === 0) {
    // A rename would succeed, and for root even a write, but a read-only file must not change.
    const problem = {
      severity: 'error',
      code: 'read-only',
      message: 'the file is read-only; nothing was written',
    } as const
    throw new CloudflareSyncError([{ ...problem, place: { file: display }, fix: `chmod u+w ${display}` }])
  }
  const temporary = `${join(dirname(target), `.${basename(target)}`)}.${process.pid}.tmp`
  try {
    const descriptor = openSync(temporary, 'wx', mode & 0o777)
    try {
      writeFileSync(descriptor, after)
      if (existsSync(target)) fchmodSync(descriptor, mode & 0o7777)
      fsyncSync(descriptor)
    } finally {
      closeSync(descriptor)
    }
    if (readIfThere(target) !== before) throw new ChangedMeanwhile(display)
    renameSync(temporary, target)
  } catch (error) {
    rmSync(temporary, { force: true })
    if (!isSystemError(error)) throw error
    const message = `cannot be written: ${error.message}`
    const fix = 'check the permissions and the space of its folder'
    throw new CloudflareSyncError([
      { severity: 'error', code: 'not-writable', message, place: { file: display }, fix },
    ])
  }
}

export function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (isSystemError(error) && error.code === 'ENOENT') return undefined
    throw error
  }
}

export function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && typeof (error as NodeJS.ErrnoException).code === 'string'
}
