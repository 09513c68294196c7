import { SandboxError } from '../errors.ts'
import { abortedError, throwIfAborted } from '../shared/abort.ts'
import { concat } from '../shared/bytes.ts'
import type { DaemonConnection } from './connection.ts'
import { type NodeHttp, nodeHttp } from './node-http.ts'
import { errorOfResponse } from './problem.ts'

export interface RequestOptions {
  query?: Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>
  json?: unknown
  body?: Uint8Array | ReadableStream<Uint8Array>
  headers?: Readonly<Record<string, string>>
  signal?: AbortSignal | undefined
}

/** Requests to the daemon. Each is made once; what fails is a SandboxError. */
export class Http {
  readonly #base: string
  readonly #key: string
  readonly #fetch: typeof globalThis.fetch
  readonly #node: NodeHttp | undefined

  constructor({ url, apiKey, fetch }: DaemonConnection) {
    this.#base = url
    this.#key = apiKey
    this.#fetch = fetch ?? ((input, init) => globalThis.fetch(input, init))
    this.#node = fetch ? undefined : nodeHttp(this.#base)
  }

  /** The answer, if its status is a good one. */
  async send(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
    throwIfAborted(options.signal)
    let response: Response
    try {
      response = await this.#fetch(this.#url(path, options.query), this.#init(method, options))
    } catch (error) {
      throw lostError(error, options.signal)
    }
    if (response.ok) return response
    throw await errorOfResponse(response)
  }

  /** For GETs that answer with a `content-length`: the body as it arrives. Rejects at once when the status is not a good one; throws when the body breaks off. */
  async chunks(path: string, options: RequestOptions = {}): Promise<AsyncGenerator<Uint8Array>> {
    throwIfAborted(options.signal)
    const start = await this.#node
      ?.download(this.#target(path, options.query), {
        headers: this.#headers(options),
        ...(options.signal ? { signal: options.signal } : {}),
      })
      .catch((error: unknown) => {
        throw lostError(error, options.signal)
      })
    if (!start) return bodyOf(await this.send('GET', path, options), options.signal)
    const { status, headers } = start.head
    if (status >= 200 && status < 300) return lossesOf(start.chunks(), options.signal)
    const body: Uint8Array[] = []
    for await (const chunk of lossesOf(start.chunks(), options.signal)) body.push(chunk)
    throw await errorOfResponse(
      new Response(new TextDecoder().decode(concat(body)) || null, { status, headers }),
    )
  }

  async json<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    const text = await this.#text(method, path, options)
    try {
      return JSON.parse(text) as T
    } catch (error) {
      throw lostError(error, options.signal)
    }
  }

  /** For what answers with nothing; its body is read, so that the connection can be used again. */
  async done(method: string, path: string, options: RequestOptions = {}): Promise<void> {
    await this.#text(method, path, options)
  }

  async #text(method: string, path: string, options: RequestOptions): Promise<string> {
    if (!this.#node || options.body !== undefined) {
      const response = await this.send(method, path, options)
      return response.text().catch((error: unknown) => {
        throw lostError(error, options.signal)
      })
    }
    throwIfAborted(options.signal)
    const answer = await this.#node
      .ask(this.#target(path, options.query), {
        method,
        headers: this.#headers(options),
        ...(options.json === undefined ? {} : { body: JSON.stringify(options.json) }),
        ...(options.signal ? { signal: options.signal } : {}),
      })
      .catch((error: unknown) => {
        throw lostError(error, options.signal)
      })
    if (answer.status >= 200 && answer.status < 300) return answer.text
    const { status, headers } = answer
    throw await errorOfResponse(new Response(answer.text || null, { status, headers }))
  }

  get visitorHeaders(): Record<string, string> {
    return { 'x-sandkasten-token': this.#key }
  }

  /** A WebSocket. Browsers send no headers with one, so the key travels as a protocol. */
  socket(path: string, query: RequestOptions['query']): WebSocket {
    const { WebSocket } = globalThis
    if (typeof WebSocket === 'undefined')
      throw new SandboxError('unsupported', 'There is no WebSocket here, which terminals need.', {
        hint: 'Use Node 22 or newer, a browser or a Worker.',
      })
    const url = this.#url(path, query).replace(/^http/, 'ws')
    return new WebSocket(url, ['sandkasten', `sandkasten.key.${this.#key}`])
  }

  #url(path: string, query: RequestOptions['query']): string {
    return `${this.#base}${this.#target(path, query)}`
  }

  #target(path: string, query: RequestOptions['query'] = {}): string {
    const search = new URLSearchParams()
    for (const [name, value] of Object.entries(query)) {
      if (Array.isArray(value)) for (const one of value) search.append(name, one)
      else if (value !== undefined) search.append(name, String(value))
    }
    return `${path}${search.size > 0 ? `?${search}` : ''}`
  }

  #headers({ json, body, headers }: RequestOptions): Record<string, string> {
    return {
      authorization: `Bearer ${this.#key}`,
      ...(json === undefined ? {} : { 'content-type': 'application/json' }),
      ...(body === undefined ? {} : { 'content-type': 'application/octet-stream' }),
      ...headers,
    }
  }

  #init(method: string, { json, body, headers, signal }: RequestOptions): RequestInit {
    return {
      method,
      headers: this.#headers({ json, ...(body && { body }), ...(headers && { headers }) }),
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
      ...(body === undefined ? {} : { body: body as NonNullable<RequestInit['body']> }),
      // A stream is sent while the answer is awaited; the type of fetch does not know the option yet.
      ...(body instanceof ReadableStream ? ({ duplex: 'half' } as object) : {}),
      ...(signal ? { signal } : {}),
      // A key must not follow a redirect to somewhere else.
      redirect: 'error',
    }
  }
}

/** The body of an answer as it arrives. */
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

async function* lossesOf(
  chunks: AsyncGenerator<Uint8Array>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks
  } catch (error) {
    throw lostError(error, signal)
  }
}

/** A segment of a path. Dots alone would be resolved away, encoded or not. */
export function segment(text: string, what: string): string {
  if (text !== '' && text !== '.' && text !== '..') return encodeURIComponent(text)
  throw new SandboxError('not_found', `There is no ${what} “${text}”.`)
}

/** What fetch, or reading an answer, failed with. */
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
