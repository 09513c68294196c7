import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { errnoOf } from '@sandkasten/sdk/internal'
import { type Key, parseKey, textOf } from './key.ts'

/** The largest key file. It holds one key, and two during a rotation. */
const mostBytes = 4096

/**
 * The keys in the file; empty if there is no file. Refuses a file that another account can read or has made, and a
 * symbolic link, because another account could have placed it.
 */
export function readKeyFile(file: string): Key[] {
  const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants
  let descriptor: number
  try {
    descriptor = openSync(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return []
    if (errnoOf(error) === 'ELOOP') throw refused(file, 'is a symbolic link', 'Replace the link by the file.')
    throw cannot('read', file, error)
  }
  try {
    checkPrivate(file, descriptor)
    const bytes = Buffer.alloc(mostBytes + 1)
    const length = readSync(descriptor, bytes)
    return parse(length > mostBytes ? '' : bytes.toString('utf8', 0, length), file)
  } catch (error) {
    throw SandboxError.is(error) ? error : cannot('read', file, error)
  } finally {
    closeSync(descriptor)
  }
}

/**
 * Replaces the file, durably. Only one process may call it at a time: callers hold the database's lock for encrypted
 * values.
 */
export function writeKeyFile(file: string, keys: readonly Key[]): void {
  const partial = `${file}.new`
  const text = JSON.stringify({ version: 1, note, keys: keys.map(textOf) }, null, 2)
  try {
    mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 })
    // Left by a process that was killed here.
    rmSync(partial, { force: true })
    const descriptor = openSync(partial, 'wx', 0o600)
    try {
      writeFileSync(descriptor, `${text}\n`)
      fsyncSync(descriptor)
    } finally {
      closeSync(descriptor)
    }
    renameSync(partial, file)
    syncFolder(path.dirname(file))
  } catch (error) {
    throw cannot('written', file, error)
  }
}

const note = 'The key of the encrypted values in a Sandkasten database. Keep it secret, and keep a copy.'

function checkPrivate(file: string, descriptor: number): void {
  const stats = fstatSync(descriptor)
  if (!stats.isFile()) throw refused(file, 'is not a file', 'Move it away.')
  // Windows has neither.
  if (!process.geteuid) return
  if (stats.uid !== process.geteuid())
    throw refused(file, 'belongs to another account', 'Run as its owner, or copy it to a file of your own.')
  if ((stats.mode & 0o077) !== 0)
    throw refused(
      file,
      'can be read or changed by other accounts',
      `Run chmod 600 ${file}. If another account may have read it, rotate the key too.`,
    )
}

function parse(text: string, file: string): Key[] {
  let keys: unknown
  try {
    keys = (JSON.parse(text) as { keys?: unknown }).keys
  } catch {
    // The parser's message would quote the content.
  }
  if (!Array.isArray(keys) || keys.length === 0 || keys.some((key) => typeof key !== 'string'))
    throw refused(file, 'is damaged', 'Restore it from a backup.')
  return keys.map((key: string) => parseKey(key, `A key in ${file}`))
}

function syncFolder(folder: string): void {
  // Windows cannot open folders.
  if (process.platform === 'win32') return
  const descriptor = openSync(folder, 'r')
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

function refused(file: string, why: string, hint: string): SandboxError {
  return new SandboxError('permission_denied', `The key file ${file} ${why}.`, { hint })
}

function cannot(what: 'read' | 'written', file: string, cause: unknown): SandboxError {
  const full = errnoOf(cause) === 'ENOSPC' || errnoOf(cause) === 'EDQUOT'
  return new SandboxError(
    full ? 'disk_full' : 'permission_denied',
    `The key file ${file} cannot be ${what}.`,
    {
      cause,
      hint: full ? undefined : 'Check the permissions of the file and of its folder.',
    },
  )
}
