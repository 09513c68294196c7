import { retryAfterOf } from '../../shared/retry-after.ts'

/**
 * What an answer said in its headers. The SDK keeps none of that in its errors and takes no `fetch` of ours; but the HTTP client under it
 * (undici) tells Node's diagnostics of every answer, with the request that it is for. Ours carry an id that nobody else has. Where there is no
 * such channel, nothing is known and nothing is said.
 */
export class Answer {
  readonly requestId: string
  #headers: ReadonlyMap<string, string> = new Map()

  constructor(requestId: string) {
    this.requestId = requestId
    if (awaited.size === 0) channel?.subscribe(heard)
    awaited.set(requestId, (headers) => {
      this.#headers = headers
    })
  }

  /** What the request that it answers has to carry. */
  get asked(): { 'X-Request-Id': string } {
    return { 'X-Request-Id': this.requestId }
  }

  /** What an error's details have of it. */
  get details(): { retryAfterMs?: number; traceId?: string } {
    const retryAfterMs = retryAfterOf(this.#headers.get('retry-after'))
    const traceId = this.#headers.get('x-e2b-trace-id')
    return {
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      ...(traceId === undefined ? {} : { traceId: traceId.slice(0, 200) }),
    }
  }

  close(): void {
    awaited.delete(this.requestId)
    if (awaited.size === 0) channel?.unsubscribe(heard)
  }
}

const awaited = new Map<string, (headers: ReadonlyMap<string, string>) => void>()

interface Channel {
  subscribe(listener: (message: unknown) => void): void
  unsubscribe(listener: (message: unknown) => void): void
}

const channel = diagnostics()?.channel('undici:request:headers')

/** Without an import: there are places without Node, and bundlers for them. */
function diagnostics(): { channel(name: string): Channel } | undefined {
  const { process } = globalThis as { process?: { getBuiltinModule?(name: string): unknown } }
  return process?.getBuiltinModule?.('node:diagnostics_channel') as
    | { channel(name: string): Channel }
    | undefined
}

/** Listens to somebody else's library: whatever it says, nothing may be thrown at it. */
function heard(message: unknown): void {
  try {
    const { request, response } = message as { request: { headers: unknown }; response: { headers: unknown } }
    for (const value of Array.isArray(request.headers) ? request.headers : [])
      awaited.get(value)?.(headersOf(response.headers))
  } catch {
    // Another form than we know tells nothing.
  }
}

/** Names and values in turn, as bytes; or an object of them. */
function headersOf(raw: unknown): ReadonlyMap<string, string> {
  const flat = Array.isArray(raw)
    ? raw.map(String)
    : Object.entries(raw as object)
        .flat()
        .map(String)
  const headers = new Map<string, string>()
  for (let at = 0; at + 1 < flat.length; at += 2) headers.set(flat[at]!.toLowerCase(), flat[at + 1]!)
  return headers
}
