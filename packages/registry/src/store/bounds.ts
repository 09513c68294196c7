import { SandboxError } from '@sandkasten/sdk'
import { checkName } from '../names.ts'
import type { Tables } from './tables.ts'

/**
 * What may be stored in each text column. Callers, providers and sandboxes choose these texts, and terminals and chats
 * print them, so none of them holds a control character. `line` and `json` refuse a text that does not fit; `message`
 * makes it fit.
 */
const bounds: Readonly<Record<TextColumn, Bound>> = {
  id: { kind: 'line', bytes: 64 },
  sandbox_id: { kind: 'line', bytes: 64 },
  app_id: { kind: 'line', bytes: 200 },
  guild_id: { kind: 'line', bytes: 200 },
  channel_id: { kind: 'line', bytes: 200 },
  thread_id: { kind: 'line', bytes: 200 },
  name: { kind: 'name', bytes: 63 },
  provider: { kind: 'line', bytes: 64 },
  credentials_id: { kind: 'line', bytes: 64 },
  provider_sandbox_id: { kind: 'line', bytes: 512 },
  status: { kind: 'line', bytes: 32 },
  operation: { kind: 'line', bytes: 32 },
  error_message: { kind: 'message', bytes: 2_000 },
  purpose: { kind: 'message', bytes: 200 },
  base_url: { kind: 'line', bytes: 2_048 },
  snapshot_id: { kind: 'line', bytes: 512 },
  repo_url: { kind: 'line', bytes: 2_048 },
  label: { kind: 'line', bytes: 200 },
  directory: { kind: 'line', bytes: 4_096 },
  // With two networks: the one in force, and the next one.
  settings: { kind: 'json', bytes: 256 * 1024 },
  config_json: { kind: 'json', bytes: 64 * 1024 },
  env: { kind: 'json', bytes: 1024 * 1024 },
  api_key: { kind: 'json', bytes: 64 * 1024 },
  opencode_password: { kind: 'json', bytes: 4_096 },
  secret: { kind: 'line', bytes: 64 },
  sealed: { kind: 'json', bytes: 16 * 1024 },
  lease_holder: { kind: 'json', bytes: 1_024 },
  holder: { kind: 'json', bytes: 1_024 },
  value: { kind: 'line', bytes: 1_024 },
}

/** Returns the row as it may be stored. Throws `invalid_argument` and names the column that does not fit. */
export function bounded<Row extends object>(row: Row): Row {
  const entries = Object.entries(row).map(([column, value]) => {
    if (typeof value === 'string' && column in bounds) return [column, text(column as TextColumn, value)]
    if (typeof value === 'number' && !Number.isSafeInteger(value))
      throw new SandboxError('invalid_argument', `\`${column}\` must be a whole number.`)
    return [column, value]
  })
  return Object.fromEntries(entries) as Row
}

function text(column: TextColumn, value: string): string {
  const { kind, bytes } = bounds[column]
  if (kind === 'name') return checkName(value)
  if (kind === 'message') return cut(value.toWellFormed().replace(unprintable, ' '), bytes)
  if (Buffer.byteLength(value) > bytes)
    throw new SandboxError('invalid_argument', `\`${column}\` is longer than ${bytes} bytes.`)
  if (!value.isWellFormed() || value.search(unprintable) >= 0)
    throw new SandboxError('invalid_argument', `\`${column}\` contains characters that cannot be printed.`)
  return value
}

/** Control characters, line separators, and characters that reverse the direction of the text around them. */
const unprintable = /[\p{Cc}\u2028-\u202e\u2066-\u2069]/gu

function cut(value: string, bytes: number): string {
  if (Buffer.byteLength(value) <= bytes) return value
  // A character that is cut in half becomes U+FFFD, and is removed.
  return `${Buffer.from(value)
    .subarray(0, bytes - 3)
    .toString()
    .replace(/\ufffd$/, '')}…`
}

interface Bound {
  readonly kind: 'name' | 'line' | 'json' | 'message'
  readonly bytes: number
}

/** All columns that hold text, so that a new one cannot be forgotten. */
type TextColumn = { [Name in keyof Tables]: TextKeys<Tables[Name]> }[keyof Tables]
type TextKeys<Row> = { [Key in keyof Row]: Extract<Row[Key], string> extends never ? never : Key }[keyof Row]
