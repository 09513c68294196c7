import { SandboxError } from '../../errors.ts'
import { refuseOther } from '../../shared/vendor-sdk.ts'
import { errorOfAnswer, Refused } from './errors.ts'
import { vendorPackage } from './sdk.ts'

export interface TransportOptions {
  /** Where the vendor's API is; the SDK itself can only be told by its `fetch`. */
  baseUrl?: string | undefined
  fetch: typeof globalThis.fetch
  /** How long an answer may take to come. */
  requestTimeoutMs: number
  /** The caller's, on every request: no other one, wherever the SDK may have found it. No error shows it. */
  token: string
}

const vendorBase = 'https://vercel.com/api'

/**
 * The `fetch` of the SDK, and the only place that sees raw responses. It sends each request once (the SDK would repeat
 * commands) and with the caller's token. It applies timeouts, converts failures to our errors, and adds backpressure to
 * logs (the SDK would read all of a log into memory).
 */
export class Transport {
  readonly #options: TransportOptions
  /** The reader that is about to open a log, by the command's id. */
  readonly #opening = new Map<string, LogGate>()
  readonly #turns = new Map<string, Promise<unknown>>()

  constructor(options: TransportOptions) {
    this.#options = options
  }

  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    const url = addressAt(this.#options.baseUrl, String(input))
    const gate = this.#gateOf(url)
    const clock = new AbortController()
    const { requestTimeoutMs, token } = this.#options
    const headers = new Headers(init?.headers)
    refuseOtherSdk(headers)
    headers.set('authorization', `Bearer ${token}`)
    // Waiting for the end of a command is waiting, not silence.
    const waits = /[?&]wait=true\b/.test(url)
    const timer = waits ? undefined : setTimeout(() => clock.abort(), requestTimeoutMs)
    try {
      const signals = init?.signal ? [init.signal, clock.signal] : [clock.signal]
      const response = await this.#options.fetch(url, {
        ...init,
        headers,
        signal: AbortSignal.any(signals),
      })
      if (!response.ok) {
        const text = await response.text()
        throw new Refused(
          errorOfAnswer({ status: response.status, headers: response.headers, text }, [token]),
        )
      }
      const type = response.headers.get('content-type') ?? ''
      if (/^application\/(x-ndjson|octet-stream)\b/.test(type)) return guarded(response, gate)
      return await wholeJson(response, type)
    } catch (error) {
      if (error instanceof Refused || init?.signal?.aborted) throw error
      throw new Refused(clock.signal.aborted ? silent(requestTimeoutMs, error) : unreachable(error))
    } finally {
      clearTimeout(timer)
    }
  }

  /** One after the other for each key. */
  async turn<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(key)
    const mine = (async () => {
      await before?.catch(() => {})
      return work()
    })()
    this.#turns.set(key, mine)
    try {
      return await mine
    } finally {
      if (this.#turns.get(key) === mine) this.#turns.delete(key)
    }
  }

  /** Opens a log so that no more of it is read than `gate` is told to be consumed. */
  announce(cmdId: string, gate: LogGate): void {
    this.#opening.set(cmdId, gate)
  }

  #gateOf(url: string): LogGate | undefined {
    const cmdId = /\/cmd\/([^/?]+)\/logs(\?|$)/.exec(url)?.[1]
    if (cmdId === undefined) return undefined
    const gate = this.#opening.get(cmdId)
    this.#opening.delete(cmdId)
    gate?.opened()
    return gate
  }
}

/** The URL of a request, on `baseUrl` instead of Vercel's own host. */
export function addressAt(baseUrl: string | undefined, url: string): string {
  if (baseUrl === undefined || !url.startsWith(vendorBase)) return url
  return `${baseUrl}${url.slice(vendorBase.length)}`
}

/** The SDK sends its version with every request. A module that the caller passes has no manifest, and 2.x has the shape of 3.x. */
function refuseOtherSdk(headers: Headers): void {
  const version = /^vercel\/sandbox\/(\d\S*)/.exec(headers.get('user-agent') ?? '')?.[1]
  try {
    if (version !== undefined) refuseOther(vendorPackage, version)
  } catch (error) {
    throw new Refused(error as SandboxError)
  }
}

/** Passes one log on at the speed of its reader. */
export class LogGate {
  #delivered = 0
  #consumed = 0
  #previous = 10
  #wake: () => void = () => {}
  readonly #open = Promise.withResolvers<void>()

  /** Resolves when the request for the log has taken this gate. */
  get taken(): Promise<void> {
    return this.#open.promise
  }

  opened(): void {
    this.#open.resolve()
  }

  /** One more line was taken. */
  consume(): void {
    this.#consumed += 1
    this.#wake()
  }

  /** Resolves when what was let through has been taken. */
  async pass(): Promise<void> {
    while (this.#delivered - this.#consumed > 1)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
  }

  /** Lines that are let through. Blank lines only keep the connection alive and are dropped. */
  deliver(bytes: Uint8Array): void {
    for (const byte of bytes) {
      if (byte === 10 && this.#previous !== 10) this.#delivered += 1
      this.#previous = byte
    }
  }

  release(): void {
    this.#consumed = Infinity
    this.#wake()
  }
}

/** A streamed body. When it breaks off, it fails with one of our errors. */
function guarded(response: Response, gate: LogGate | undefined): Response {
  if (!response.body) return response
  const reader = response.body.getReader()
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        await gate?.pass()
        const { done, value } = await reader.read().catch((cause: unknown) => {
          throw new Refused(brokenOff(cause))
        })
        if (done) return controller.close()
        gate?.deliver(value)
        controller.enqueue(value)
      },
      cancel(reason) {
        gate?.release()
        return reader.cancel(reason)
      },
    },
    { highWaterMark: 0 },
  )
  return withBody(response, body)
}

/** All of it within the request's time; and it must be JSON: a page that was sent with 200 is no answer. */
async function wholeJson(response: Response, type: string): Promise<Response> {
  const text = await response.text()
  try {
    JSON.parse(text === '' ? '{}' : text)
  } catch (cause) {
    const requestId = response.headers.get('x-vercel-id') ?? response.headers.get('x-request-id') ?? undefined
    throw new Refused(
      new SandboxError(
        'provider_error',
        `Vercel answered with something that is not JSON (${type || 'no type'}).`,
        {
          provider: 'vercel',
          cause,
          details: { status: response.status },
          requestId,
          hint: 'Something between here and Vercel has answered; check baseUrl and proxies.',
        },
      ),
    )
  }
  return withBody(response, text)
}

/** The SDK reads the URL of a response, which a constructed Response does not have. */
function withBody(response: Response, body: string | ReadableStream<Uint8Array>): Response {
  const { status, statusText, headers, url } = response
  return Object.defineProperty(new Response(body, { status, statusText, headers }), 'url', { value: url })
}

function silent(ms: number, cause: unknown): SandboxError {
  return new SandboxError('timeout', `Vercel did not answer within ${ms} ms.`, {
    provider: 'vercel',
    cause,
    hint: 'Try again later, or raise requestTimeoutMs.',
  })
}

function brokenOff(cause: unknown): SandboxError {
  return new SandboxError('connection_lost', 'The connection to Vercel was cut in the middle of an answer.', {
    provider: 'vercel',
    cause,
    hint: 'Read again; what runs in the sandbox goes on.',
  })
}

function unreachable(cause: unknown): SandboxError {
  return new SandboxError('unavailable', 'Vercel cannot be reached, or the connection was cut.', {
    provider: 'vercel',
    cause,
    hint: 'Check the network, and baseUrl if one is set. What was asked for may have been done.',
  })
}
