import { SandboxError } from '@sandkasten/sdk'
import type { Tables } from './tables.ts'

/**
 * What may be stored in each text column. Users, agents and chats choose these texts. `line` refuses what does not fit;
 * `message` makes it fit; `text` may have several lines.
 */
const bounds: Readonly<Record<TextColumn, Bound>> = {
  id: { kind: 'line', bytes: 200 },
  app_id: { kind: 'line', bytes: 100 },
  guild_id: { kind: 'line', bytes: 100 },
  channel_id: { kind: 'line', bytes: 100 },
  thread_id: { kind: 'line', bytes: 100 },
  message_id: { kind: 'line', bytes: 200 },
  turn_id: { kind: 'line', bytes: 200 },
  owner_id: { kind: 'line', bytes: 400 },
  post_id: { kind: 'line', bytes: 200 },
  nonce: { kind: 'line', bytes: 64 },
  notice_key: { kind: 'line', bytes: 200 },
  agent_message_id: { kind: 'line', bytes: 200 },
  agent_question_id: { kind: 'line', bytes: 400 },
  session_id: { kind: 'line', bytes: 200 },
  created_by: { kind: 'line', bytes: 200 },
  by_id: { kind: 'line', bytes: 200 },
  by_name: { kind: 'message', bytes: 200 },
  title: { kind: 'message', bytes: 400 },
  state: { kind: 'line', bytes: 32 },
  level: { kind: 'line', bytes: 32 },
  mode: { kind: 'line', bytes: 32 },
  source: { kind: 'line', bytes: 32 },
  sandbox: { kind: 'line', bytes: 63 },
  fork_snapshot: { kind: 'line', bytes: 512 },
  directory: { kind: 'line', bytes: 4_096 },
  base_commit: { kind: 'line', bytes: 64 },
  model: { kind: 'line', bytes: 200 },
  error_message: { kind: 'message', bytes: 2_000 },
  error_hint: { kind: 'message', bytes: 1_000 },
  outcome: { kind: 'message', bytes: 1_000 },
  action: { kind: 'message', bytes: 64 },
  target: { kind: 'message', bytes: 500 },
  result: { kind: 'message', bytes: 200 },
  text: { kind: 'text', bytes: 256 * 1024 },
  choice: { kind: 'line', bytes: 64 * 1024 },
  files: { kind: 'line', bytes: 16 * 1024 },
  ending: { kind: 'line', bytes: 1024 * 1024 },
  question: { kind: 'line', bytes: 128 * 1024 },
  reply: { kind: 'line', bytes: 128 * 1024 },
  settings: { kind: 'line', bytes: 64 * 1024 },
  holder: { kind: 'line', bytes: 1_024 },
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

/** JSON on one line, without characters that a `line` must not have. */
export function toJson(value: unknown): string {
  return JSON.stringify(value)
    .toWellFormed()
    .replace(unprintable, (char) => `\\u${char.codePointAt(0)!.toString(16).padStart(4, '0')}`)
}

function text(column: TextColumn, value: string): string {
  const { kind, bytes } = bounds[column]
  if (kind === 'message') return cut(value.toWellFormed().replace(unprintable, ' '), bytes)
  if (Buffer.byteLength(value) > bytes)
    throw new SandboxError('invalid_argument', `\`${column}\` is longer than ${bytes} bytes.`)
  if (kind === 'text') return value.toWellFormed().replaceAll('\0', '')
  if (!value.isWellFormed() || value.search(unprintable) >= 0)
    throw new SandboxError('invalid_argument', `\`${column}\` contains characters that cannot be printed.`)
  return value
}

/** Control characters, line separators, and characters that reverse the direction of the text around them. */
const unprintable = /[\p{Cc}\u2028-\u202e\u2066-\u2069]/gu

/** At most this many bytes of UTF-8. */
export function cut(value: string, bytes: number): string {
  if (Buffer.byteLength(value) <= bytes) return value
  // A character that is cut in half becomes U+FFFD, and is removed.
  return `${Buffer.from(value)
    .subarray(0, bytes - 3)
    .toString()
    .replace(/\ufffd$/, '')}…`
}

interface Bound {
  readonly kind: 'line' | 'text' | 'message'
  readonly bytes: number
}

/** All columns that hold text, so that a new one cannot be forgotten. */
type TextColumn = { [Name in keyof Tables]: TextKeys<Tables[Name]> }[keyof Tables]
type TextKeys<Row> = { [Key in keyof Row]: Extract<Row[Key], string> extends never ? never : Key }[keyof Row]
