import { SandboxError } from '../errors.ts'
import { abortedError, throwIfAborted } from '../shared/calls/abort.ts'
import { concat } from '../shared/output/bytes.ts'
import type { DaemonConnection } from './connection.ts'
import { type NodeDownload, nodeDownload } from './node-download.ts'
import { errorOfResponse } from './problem.ts'

export interface RequestOptions {
  query?: Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>
  json?: unknown
  body?: Uint8Array | ReadableStream<Uint8Array>
  headers?: Readonly<Record<string, string>>
  signal?: AbortSignal | undefined
}

/** Sends requests to the daemon with `fetch`, and downloads in Node with `nodeDownload`. It never retries, and every failure is a SandboxError. */
export class Http {
  readonly #base: string
  readonly #key: string
  readonly #fetch: typeof globalThis.fetch
  readonly #download: NodeDownload | undefined

  constructor({ url, apiKey, fetch }: DaemonConnection) {
    this.#base = url
    this.#key = apiKey
    this.#fetch = fetch ?? ((input, init) => globalThis.fetch(input, init))
    this.#download = fetch ? undefined : nodeDownload(url)
  }

  /** Resolves when the head of a successful response has arrived. */
  async send(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
    throwIfAborted(options.signal)
    const init = this.#init(method, options)
    let response: Response
    try {
      response = await this.#fetch(this.#url(path, options.query), init)
    } catch (error) {
      throw lostError(error, options.signal)
    }
    if (response.ok) return response
    throw await errorOfResponse(response)
  }

  /** Downloads with GET. Resolves when the head of a successful response has arrived; then yields the body. */
  async chunks(path: string, options: RequestOptions = {}): Promise<AsyncGenerator<Uint8Array>> {
    const { signal } = options
    if (!this.#download) return bodyOf(await this.send('GET', path, options), signal)
    throwIfAborted(signal)
    const headers = { authorization: `Bearer ${this.#key}`, ...checkedHeaders(options.headers) }
    const url = this.#url(path, options.query)
    const {
      status,
      headers: found,
      body,
    } = await this.#download(url, { headers, signal }).catch((cause) => {
      throw lostError(new TypeError('The request failed.', { cause }), signal)
    })
    const chunks = translated(body, signal)
    if (status >= 200 && status < 300) return chunks
    const text: Uint8Array[] = []
    for await (const chunk of chunks) text.push(chunk)
    throw await errorOfResponse(new Response(concat(text), { status, headers: found }))
  }

  async json<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    const text = await this.#text(method, path, options)
    try {
      return JSON.parse(text) as T
    } catch (error) {
      throw lostError(error, options.signal)
    }
  }

  /** For responses without content. Reads the body, so that the connection can be reused. */
  async done(method: string, path: string, options: RequestOptions = {}): Promise<void> {
    await this.#text(method, path, options)
  }

  async #text(method: string, path: string, options: RequestOptions): Promise<string> {
    const response = await this.send(method, path, options)
    return response.text().catch((error: unknown) => {
      throw lostError(error, options.signal)
    })
  }

  get visitorHeaders(): Record<string, string> {
    return { 'x-sandkasten-token': this.#key }
  }

  /** Opens a WebSocket. Browsers cannot set headers on it, so the key is sent as a subprotocol. */
  socket(path: string, query: RequestOptions['query']): WebSocket {
    const { WebSocket } = globalThis
    if (typeof WebSocket === 'undefined')
      throw new SandboxError('unsupported', 'Terminals need WebSocket, which this runtime does not have.', {
        hint: 'Use Node 22 or newer, a browser or a Worker.',
      })
    const url = this.#url(path, query).replace(/^http/, 'ws')
    return new WebSocket(url, ['sandkasten', `sandkasten.key.${this.#key}`])
  }

  #url(path: string, query: RequestOptions['query'] = {}): string {
    const search = new URLSearchParams()
    for (const [name, value] of Object.entries(query)) {
      if (Array.isArray(value)) for (const one of value) search.append(name, one)
      else if (value !== undefined) search.append(name, String(value))
    }
    return `${this.#base}${path}${search.size > 0 ? `?${search}` : ''}`
  }

  #init(method: string, { json, body, headers, signal }: RequestOptions): RequestInit {
    const type = body === undefined ? 'application/json' : 'application/octet-stream'
    const content = body === undefined && json !== undefined ? JSON.stringify(json) : body
    return {
      method,
      headers: {
        authorization: `Bearer ${this.#key}`,
        ...(content === undefined ? {} : { 'content-type': type }),
        ...checkedHeaders(headers),
      },
      body: content as RequestInit['body'],
      // Required for a stream; the type of fetch does not know the option yet.
      ...(body instanceof ReadableStream ? ({ duplex: 'half' } as object) : {}),
      signal,
      // The key must not follow a redirect to another host.
      redirect: 'manual',
    }
  }
}

/** fetch would report such a header as a failed connection. */
function checkedHeaders(headers: RequestOptions['headers'] = {}): Readonly<Record<string, string>> {
  for (const [name, value] of Object.entries(headers))
    if (/[^\t\x20-\x7e]/.test(value))
      throw new SandboxError('invalid_argument', `The value of the header ${name} is not printable ASCII.`, {
        hint: 'Use printable ASCII characters.',
      })
  return headers
}

/** Yields the body as it arrives. Throws when the body breaks off; cancels it when the consumer stops early. */
export async function* bodyOf(
  response: Response,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  if (!response.body) return
  const reader = response.body.getReader()
  let ended = false
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) {
        ended = true
        return
      }
      yield value
    }
  } catch (error) {
    throw lostError(error, signal)
  } finally {
    if (!ended) void reader.cancel().catch(() => {})
  }
}

async function* translated(body: AsyncIterable<Uint8Array>, signal: AbortSignal | undefined) {
  try {
    yield* body
  } catch (error) {
    throw lostError(error, signal)
  }
}

/** Encodes one segment of a URL path. Refuses `.` and `..`, which URL parsers resolve even when encoded. */
export function segment(text: string, what: string): string {
  if (text !== '' && text !== '.' && text !== '..') return encodeURIComponent(text)
  throw new SandboxError('not_found', `The ${what} “${text}” does not exist.`)
}

/** Translates an error of fetch or of reading a response body. */
export function lostError(error: unknown, signal?: AbortSignal): unknown {
  if (SandboxError.is(error)) return error
  if (signal?.aborted) return abortedError(signal)
  const code = (error as { cause?: { code?: unknown } } | undefined)?.cause?.code
  if (typeof code === 'string' && unreachable.has(code))
    return new SandboxError('unavailable', `The daemon cannot be reached (${code}).`, {
      cause: error,
      hint: 'Check the URL, and that the daemon runs: `sandkasten up`.',
    })
  return new SandboxError('connection_lost', 'The connection to the daemon was lost.', { cause: error })
}

const unreachable = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])
