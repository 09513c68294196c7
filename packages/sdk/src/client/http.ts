import { SandboxError } from '../errors.ts'
import { abortedError, throwIfAborted } from '../shared/calls/abort.ts'
import { concat } from '../shared/output/bytes.ts'
import type { DaemonConnection } from './connection.ts'
import { type NodeHttp, nodeHttp } from './node-http.ts'
import { errorOfResponse, errorOfText } from './problem.ts'

export interface RequestOptions {
  query?: Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>
  json?: unknown
  body?: Uint8Array | ReadableStream<Uint8Array>
  headers?: Readonly<Record<string, string>>
  signal?: AbortSignal | undefined
}

/** Sends requests to the daemon with `fetch`, or with `nodeHttp` where it works. It never retries, and every failure is a SandboxError. */
export class Http {
  readonly #base: string
  readonly #key: string
  readonly #fetch: typeof globalThis.fetch
  readonly #node: NodeHttp | undefined

  constructor({ url, apiKey, fetch }: DaemonConnection) {
    this.#base = url
    this.#key = apiKey
    this.#fetch = fetch ?? ((input, init) => globalThis.fetch(input, init))
    this.#node = fetch ? undefined : nodeHttp(url)
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
    if (this.#node) return this.#download(this.#node, path, options)
    return bodyOf(await this.send('GET', path, options), options.signal)
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
    if (this.#node && options.body === undefined) return this.#short(this.#node, method, path, options)
    const response = await this.send(method, path, options)
    return response.text().catch((error: unknown) => {
      throw lostError(error, options.signal)
    })
  }

  /** Sends a request without a body, or with JSON. Returns the text of a successful response. */
  async #short(node: NodeHttp, method: string, path: string, options: RequestOptions): Promise<string> {
    const { json, signal } = options
    throwIfAborted(signal)
    const body = json === undefined ? undefined : JSON.stringify(json)
    const headers = this.#headers(options.headers, body === undefined ? undefined : 'application/json')
    const request = { method, headers, body, signal }
    const response = await node.text(pathOf(path, options.query), request).catch((cause) => {
      throw lostError(new TypeError('The request failed.', { cause }), signal)
    })
    if (isOk(response.status)) return response.text
    throw errorOfText(response.status, new Headers(response.headers()), response.text)
  }

  async #download(
    node: NodeHttp,
    path: string,
    options: RequestOptions,
  ): Promise<AsyncGenerator<Uint8Array>> {
    const { signal } = options
    throwIfAborted(signal)
    const request = { method: 'GET', headers: this.#headers(options.headers, undefined), signal }
    const response = await node.download(pathOf(path, options.query), request).catch((cause) => {
      throw lostError(new TypeError('The request failed.', { cause }), signal)
    })
    const body = translated(response.body, signal)
    if (isOk(response.status)) return body
    throw errorOfText(response.status, new Headers(response.headers()), await textOf(body))
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

  #url(path: string, query?: RequestOptions['query']): string {
    return this.#base + pathOf(path, query)
  }

  #init(method: string, { json, body, headers, signal }: RequestOptions): RequestInit {
    const type = body === undefined ? 'application/json' : 'application/octet-stream'
    const content = body === undefined && json !== undefined ? JSON.stringify(json) : body
    return {
      method,
      headers: this.#headers(headers, content === undefined ? undefined : type),
      body: content as RequestInit['body'],
      // Required for a stream; the type of fetch does not know the option yet.
      ...(body instanceof ReadableStream ? ({ duplex: 'half' } as object) : {}),
      signal,
      // The key must not follow a redirect to another host.
      redirect: 'manual',
    }
  }

  #headers(given: RequestOptions['headers'], type: string | undefined): Record<string, string> {
    return {
      authorization: `Bearer ${this.#key}`,
      ...(type === undefined ? {} : { 'content-type': type }),
      ...checkedHeaders(given),
    }
  }
}

function pathOf(path: string, query: RequestOptions['query']): string {
  if (query === undefined) return path
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (Array.isArray(value)) for (const one of value) search.append(name, one)
    else if (value !== undefined) search.append(name, String(value))
  }
  return `${path}${search.size > 0 ? `?${search}` : ''}`
}

const isOk = (status: number) => status >= 200 && status < 300

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

async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = []
  for await (const chunk of body) chunks.push(chunk)
  return new TextDecoder().decode(concat(chunks))
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
