import { SandboxError } from '../../errors.ts'
import { refuseOther } from '../../shared/vendor-sdk.ts'
import { errorOfAnswer, Refused } from './errors.ts'
import { vendorPackage } from './sdk.ts'

export interface TransportOptions {
  /** The address of the vendor's API. The SDK has no option for it. */
  baseUrl?: string | undefined
  fetch: typeof globalThis.fetch
  requestTimeoutMs: number
  /** The caller's token. It replaces any token that the SDK has found, and never appears in an error. */
  token: () => Promise<string>
}

const vendorBase = 'https://vercel.com/api'

/**
 * The `fetch` of the SDK, and the only place that sees raw responses. It sends each request once (the SDK would repeat
 * commands) and with the caller's token. It applies timeouts, and converts failures to our errors.
 */
export class Transport {
  readonly #options: TransportOptions
  readonly #turns = new Map<string, Promise<unknown>>()

  constructor(options: TransportOptions) {
    this.#options = options
  }

  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    const url = addressAt(this.#options.baseUrl, String(input))
    const clock = new AbortController()
    const { requestTimeoutMs } = this.#options
    const token = await this.#options.token().catch((error: SandboxError) => {
      throw new Refused(error)
    })
    const headers = new Headers(init?.headers)
    refuseOtherSdk(headers)
    headers.set('authorization', `Bearer ${token}`)
    // Waiting for a command to end has no timeout.
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
      if (/^application\/(x-ndjson|octet-stream)\b/.test(type)) return guarded(response)
      return await wholeJson(response, type)
    } catch (error) {
      if (error instanceof Refused || init?.signal?.aborted) throw error
      throw new Refused(clock.signal.aborted ? silent(requestTimeoutMs, error) : unreachable(error))
    } finally {
      clearTimeout(timer)
    }
  }

  /** Runs work with the same key one at a time. */
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
}

/** The URL of a request, on `baseUrl` instead of Vercel's own host. */
export function addressAt(baseUrl: string | undefined, url: string): string {
  if (baseUrl === undefined || !url.startsWith(vendorBase)) return url
  return `${baseUrl}${url.slice(vendorBase.length)}`
}

/** The SDK sends its version with every request. A passed module has no manifest, and 2.x has the shape of 3.x. */
function refuseOtherSdk(headers: Headers): void {
  const version = /^vercel\/sandbox\/(\d\S*)/.exec(headers.get('user-agent') ?? '')?.[1]
  try {
    if (version !== undefined) refuseOther(vendorPackage, version)
  } catch (error) {
    throw new Refused(error as SandboxError)
  }
}

/** A streamed body. If it breaks off, it fails with one of our errors. */
function guarded(response: Response): Response {
  if (!response.body) return response
  const reader = response.body.getReader()
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await reader.read().catch((cause: unknown) => {
          throw new Refused(brokenOff(cause))
        })
        if (done) return controller.close()
        controller.enqueue(value)
      },
      cancel(reason) {
        return reader.cancel(reason)
      },
    },
    { highWaterMark: 0 },
  )
  return withBody(response, body)
}

/** Reads the whole body within the request's timeout. It must be JSON: a proxy may send a page with status 200. */
async function wholeJson(response: Response, type: string): Promise<Response> {
  const text = await response.text()
  try {
    JSON.parse(text === '' ? '{}' : text)
  } catch (cause) {
    const requestId = response.headers.get('x-vercel-id') ?? response.headers.get('x-request-id') ?? undefined
    throw new Refused(
      new SandboxError('provider_error', `Vercel’s response is not JSON (${type || 'no type'}).`, {
        provider: 'vercel',
        cause,
        details: { status: response.status },
        requestId,
        hint: 'A proxy may have responded instead of Vercel; check baseUrl and proxies.',
      }),
    )
  }
  return withBody(response, text)
}

/** The SDK reads the URL of a response, which a constructed Response lacks. */
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
  return new SandboxError('connection_lost', 'The connection to Vercel was lost during a response.', {
    provider: 'vercel',
    cause,
    hint: 'Read again; programs in the sandbox continue.',
  })
}

function unreachable(cause: unknown): SandboxError {
  return new SandboxError('unavailable', 'Vercel cannot be reached, or the connection was lost.', {
    provider: 'vercel',
    cause,
    hint: 'Check the network, and baseUrl if one is set. The request may have taken effect.',
  })
}
