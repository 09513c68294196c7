import { type Hints, SandboxError } from '@sandkasten/sdk'

/**
 * Translates errors of the database by SQLite's result codes, Postgres' SQLSTATE classes and Node's network codes, never
 * by message text. `file` is SQLite's file, for messages about it.
 */
export function databaseError(error: unknown, file?: string): unknown {
  if (SandboxError.is(error) || !(error instanceof Error)) return error
  const { code, errcode } = error as { code?: unknown; errcode?: unknown }
  if (typeof errcode === 'number') return sqliteError(error, errcode, file)
  if (typeof code === 'string' && (networkCodes.has(code) || awayStates.test(code)))
    return away('The database cannot be reached.', reconnects, error)
  if (typeof code === 'string' && /^53(100|200)$/.test(code))
    return new SandboxError('disk_full', 'The database has no room left.', {
      cause: error,
      details: retryLater,
    })
  // pg's own errors about its connections and its pool carry no code.
  if (code === undefined && isFromPg(error)) return away('The database cannot be reached.', reconnects, error)
  return error
}

/** Whether a row with this key exists. */
export function isDuplicate(error: unknown): boolean {
  const cause = error as { code?: unknown; errcode?: unknown }
  return cause?.code === '23505' || cause?.errcode === 2067 || cause?.errcode === 1555
}

/** SQLite's result code without its details. Undefined: another error. */
export function primaryCode(error: unknown): number | undefined {
  const { errcode } = (error ?? {}) as { errcode?: unknown }
  return typeof errcode === 'number' ? errcode & 0xff : undefined
}

/** `SQLITE_BUSY` and `SQLITE_PROTOCOL`: another process has a lock that it will release. */
export const busyCodes: readonly number[] = [5, 15]

/** `SQLITE_IOERR_SHMSIZE`: the disk has no room for the index of the write-ahead log, which even a reader needs. */
const noRoomForIndex = 4874

function sqliteError(error: Error, errcode: number, file: string | undefined): unknown {
  const primary = errcode & 0xff
  if (busyCodes.includes(primary) || primary === 6)
    return away('The database is locked by another program.', 'Try again in a moment.', error)
  if (primary === 13 || errcode === noRoomForIndex) return diskFull(error)
  const named = file === undefined ? 'The database’s file' : `The database’s file ${file}`
  if ([8, 10, 14].includes(primary))
    return away(
      `${named} cannot be used.`,
      'Check that the disk works, and that this account may write to the file and its folder.',
      error,
    )
  if ([11, 26].includes(primary))
    return new SandboxError('internal', `${named} is damaged, or is not a database.`, {
      cause: error,
      hint: 'Restore the file from a backup, or move it away to begin with an empty database.',
    })
  return error
}

export function diskFull(cause?: Error): SandboxError {
  return new SandboxError('disk_full', 'The database’s disk is full.', {
    cause,
    details: retryLater,
    hint: 'Free space on the disk that holds the database. No data is lost.',
  })
}

function away(message: string, hint: string | Hints, cause: Error): SandboxError {
  return new SandboxError('unavailable', message, { cause, details: retryLater, hint })
}

const checkAddress = 'Try again in a moment. Check that the database runs, and that its address is right.'
const reconnects: Hints = {
  sdk: checkAddress,
  http: 'Try again in a moment. The server reconnects as soon as the database is back.',
  cli: checkAddress,
}
const retryLater = { retryAfterMs: 1_000 }
const networkCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENOENT',
  'EHOSTUNREACH',
  'ENETUNREACH',
])
/** Connection exceptions, insufficient resources, operator intervention. */
const awayStates = /^(08...|53300|53400|57P0.|57014|25006)$/

function isFromPg(error: Error): boolean {
  return /[\\/](pg|pg-pool)[\\/]/.test(error.stack ?? '')
}
