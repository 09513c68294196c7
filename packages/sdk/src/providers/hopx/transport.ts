import { SandboxError } from '../../errors.ts'
import { abortedError } from '../../shared/calls/abort.ts'
import { type Answer, type ErrorFacts, errorOfAnswer, garbled, unanswered } from './errors.ts'
import { type HopxClient, type HopxClientConfig, type HopxModule, loadSdk } from './sdk.ts'

export interface TransportCall extends ErrorFacts {
  readonly signal?: AbortSignal | undefined
  /** How long the server itself may wait before it answers. */
  readonly waitMs?: number | undefined
  readonly body?: unknown
}

export type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'

/** Requests through the SDK's HTTP client, once each, with the status and the headers that the client would drop. */
export class Transport {
  readonly requestTimeoutMs: number
  readonly #given: unknown
  #sdk: Promise<HopxModule> | undefined

  constructor(requestTimeoutMs: number, given: unknown) {
    this.requestTimeoutMs = requestTimeoutMs
    this.#given = given
  }

  async client(config: Pick<HopxClientConfig, 'baseURL' | 'apiKey' | 'jwtToken'>): Promise<HopxClient> {
    this.#sdk ??= loadSdk(this.#given)
    const { HTTPClient } = await this.#sdk.catch((error: unknown) => {
      // Allow another try after the user has installed the missing package.
      this.#sdk = undefined
      throw error
    })
    // The client retries until this many attempts were made.
    return new HTTPClient({ ...config, maxRetries: 1 })
  }

  /** The response's JSON object; empty if the response has no content. Throws for every other status. */
  async json(
    client: HopxClient,
    method: Method,
    path: string,
    call: TransportCall,
  ): Promise<Readonly<Record<string, unknown>>> {
    const answer = await this.#send(client, method, path, call)
    if (answer.status < 200 || answer.status > 299) throw errorOfAnswer(answer, call)
    if (answer.text === '') return {}
    try {
      const body: unknown = JSON.parse(answer.text)
      if (typeof body === 'object' && body !== null) return body as Record<string, unknown>
    } catch {
      // Not JSON.
    }
    throw garbled(call, answer)
  }

  async #send(
    client: HopxClient,
    method: Method,
    path: string,
    { body, ...call }: TransportCall,
  ): Promise<Answer> {
    const late = new AbortController()
    const limitMs = this.requestTimeoutMs + (call.waitMs ?? 0)
    const timer = setTimeout(() => late.abort(), limitMs)
    const config = {
      signal: call.signal ? AbortSignal.any([call.signal, late.signal]) : late.signal,
      // Ours tells a timeout from a lost connection.
      timeout: 0,
      // A redirect would take the API key to another host.
      maxRedirects: 0,
      maxContentLength: mostBytes,
      maxBodyLength: mostBytes,
      responseType: 'text',
      validateStatus: () => true,
      transformResponse: (
        text: unknown,
        headers: { get(name: string): unknown },
        status?: number,
      ): Answer => ({
        status: status ?? 0,
        text: typeof text === 'string' ? text : '',
        header: (name) => {
          const value = headers.get(name)
          return typeof value === 'string' ? value.slice(0, 200) : undefined
        },
      }),
    } as const
    try {
      const given =
        method === 'get' || method === 'delete'
          ? await client[method](path, config)
          : await client[method](path, body, config)
      return given as Answer
    } catch (error) {
      if (call.signal?.aborted) throw abortedError(call.signal, call.what)
      if (SandboxError.is(error)) throw error
      throw unanswered(call, error, late.signal.aborted)
    } finally {
      clearTimeout(timer)
    }
  }
}

/** A page of output is less than half of this as base64. */
const mostBytes = 16 * 1024 * 1024
