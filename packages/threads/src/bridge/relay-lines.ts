import { limits } from './limits.ts'

/** A line of a relay. The relay is a program in the sandbox, so a line can be anything. */
export type RelayLine =
  | { readonly type: 'listening'; readonly port: number }
  | { readonly type: 'request'; readonly id: number; readonly request: RelayRequest }
  | { readonly type: 'cancel'; readonly id: number }

export interface RelayRequest {
  readonly method: 'POST' | 'GET' | 'DELETE'
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** What a relay said that it may not say. */
export class RelayViolation extends Error {}

const passed = new Set([
  'authorization',
  'accept',
  'content-type',
  'mcp-session-id',
  'mcp-protocol-version',
  'last-event-id',
])
const mostIds = 2 ** 31

/** Splits output into lines in linear time. */
export class RelayReader {
  #pieces: Buffer[] = []
  #length = 0

  read(chunk: Uint8Array): RelayLine[] {
    const lines: RelayLine[] = []
    let rest = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    for (;;) {
      const end = rest.indexOf(10)
      const piece = end < 0 ? rest : rest.subarray(0, end)
      this.#length += piece.byteLength
      if (this.#length > limits.lineBytes) throw new RelayViolation('a line is too long')
      if (end < 0) {
        // A copy: the chunk may be reused.
        this.#pieces.push(Buffer.from(piece))
        return lines
      }
      const line = Buffer.concat([...this.#pieces, piece]).toString('utf8')
      this.#pieces = []
      this.#length = 0
      rest = rest.subarray(end + 1)
      lines.push(parsed(line))
    }
  }
}

function parsed(line: string): RelayLine {
  const value = json(line)
  const { type, id, port } = value
  if (type === 'listening' && isBetween(port, 1, 65_535)) return { type, port }
  if (!isBetween(id, 1, mostIds)) throw new RelayViolation('a line is no frame')
  if (type === 'cancel') return { type, id }
  const { method, headers, body } = value
  if (type !== 'request' || typeof body !== 'string') throw new RelayViolation('a line is no frame')
  const isKnown = method === 'POST' || method === 'GET' || method === 'DELETE'
  return {
    type,
    id,
    request: {
      method: isKnown ? method : 'GET',
      headers: headersOf(headers),
      body: Buffer.from(body, 'base64').subarray(0, limits.bodyBytes),
    },
  }
}

function json(line: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(line)
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  } catch {}
  throw new RelayViolation('a line is no JSON object')
}

function isBetween(value: unknown, least: number, most: number): value is number {
  return Number.isInteger(value) && (value as number) >= least && (value as number) <= most
}

function headersOf(value: unknown): Record<string, string> {
  const given = typeof value === 'object' && value !== null ? Object.entries(value).slice(0, 50) : []
  return Object.fromEntries(
    given.filter(
      (entry): entry is [string, string] =>
        // Printable ASCII: others are no headers.
        passed.has(entry[0]) && typeof entry[1] === 'string' && /^[\x20-\x7e]{1,2000}$/.test(entry[1]),
    ),
  )
}
