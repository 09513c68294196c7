/** Readers for values of a server that can send anything. What has another type is left out, what is too long is cut. */

export type Fields = Readonly<Record<string, unknown>>

export function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
}

export function listOf(value: unknown, most: number): unknown[] {
  return Array.isArray(value) ? value.slice(0, most) : []
}

export function textOf(value: unknown, most: number): string {
  return textIf(value, most) ?? ''
}

export function textIf(value: unknown, most: number): string | undefined {
  return typeof value === 'string' ? value.slice(0, most) : undefined
}

/** An id of opencode’s: `msg_…`, `ses_…`. It becomes a part of paths and keys. */
export function idIf(value: unknown): string | undefined {
  return typeof value === 'string' && /^[a-z]{3}_?[\w-]{1,120}$/.test(value) ? value : undefined
}

export function numberIf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined
}

/** One line without control characters. */
export function lineOf(value: unknown, most: number): string {
  // Cut first: a text of megabytes would be searched completely.
  const line = textOf(value, most * 4)
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim()
  return line.length > most ? `${line.slice(0, most - 1)}…` : line
}
