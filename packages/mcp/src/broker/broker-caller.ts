import type { IncomingMessage } from 'node:http'
import { request as httpRequest, type RequestOptions } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { SandboxError } from '@sandkasten/sdk'
import type { CalledTool, CallToolOptions, ToolCaller } from '../calls/index.ts'
import { failure, oneLine, tools } from '../tools/index.ts'
import { messagesOf, silenceMs } from './protocol.ts'

export interface BrokerCallerOptions {
  /** The path of the broker’s socket, or its address, such as `http://127.0.0.1:7778`. */
  readonly address: string
  /** The token of the sandbox. Called again with `refused: true` once after the broker has refused it. */
  readonly token: (options: { refused: boolean }) => Promise<string>
  /** Starts the broker when none answers. */
  readonly start?: () => Promise<void>
}

/** The agent’s side: it knows a token for one sandbox, and neither the registry nor any provider. */
export function brokerCaller(options: BrokerCallerOptions): ToolCaller {
  return new BrokerCaller(options)
}

/** Calls may interleave. Each has its own connection, and those that find no broker share one start. */
class BrokerCaller implements ToolCaller {
  readonly #options: BrokerCallerOptions
  #starting: Promise<void> | undefined

  constructor(options: BrokerCallerOptions) {
    this.#options = options
  }

  async call(name: string, input: unknown, options: CallToolOptions): Promise<CalledTool> {
    try {
      return await this.#call(name, input, options)
    } catch (error) {
      if (options.signal.aborted) return { result: failure('The call was cancelled.') }
      return { result: failure(textOf(error)) }
    }
  }

  async #call(name: string, input: unknown, options: CallToolOptions): Promise<CalledTool> {
    const repeatable = tools.find((tool) => tool.name === name)?.readOnly ?? false
    let refused = false
    for (let attempt = 1; ; attempt += 1) {
      const token = await this.#options.token({ refused })
      try {
        return await this.#ask({ name, input, token }, options)
      } catch (error) {
        if (options.signal.aborted || attempt >= 3) throw error
        if (SandboxError.is(error, 'unauthenticated') && !refused) refused = true
        else if (isAbsent(error)) await this.#start(error)
        else if (!(SandboxError.is(error, 'connection_lost') && repeatable)) throw error
      }
    }
  }

  async #ask({ name, input, token }: Ask, options: CallToolOptions): Promise<CalledTool> {
    const silence = new AbortController()
    const signal = AbortSignal.any([options.signal, silence.signal])
    let timer: NodeJS.Timeout | undefined
    const heard = () => {
      clearTimeout(timer)
      timer = setTimeout(() => silence.abort(), silenceMs)
    }
    heard()
    try {
      const response = await this.#request({ name, input, token }, { ...options, signal })
      if (response.statusCode !== 200) throw await refusal(response)
      for await (const message of messagesOf(response)) {
        heard()
        if (message.type === 'progress') options.onProgress(message.message)
        if (message.type === 'result') return { result: message.result, incarnation: message.incarnation }
      }
      throw lost('The broker ended during this call.')
    } catch (error) {
      if (silence.signal.aborted && !options.signal.aborted)
        throw lost(`The broker has not answered for ${silenceMs / 1000} seconds.`)
      if (isAbsent(error) || SandboxError.is(error)) throw error
      throw lost('The connection to the broker was lost during this call.', error)
    } finally {
      clearTimeout(timer)
    }
  }

  #request({ name, input, token }: Ask, { signal, hostFile }: CallToolOptions): Promise<IncomingMessage> {
    const body = hostFile ? undefined : JSON.stringify(input ?? {})
    const query = hostFile ? new URLSearchParams(input as Record<string, string>) : undefined
    const path = query ? `/v1/uploads?${query}` : `/v1/tools/${encodeURIComponent(name)}`
    const length = hostFile ? hostFile.sizeBytes : Buffer.byteLength(body!)
    const options: RequestOptions = {
      ...this.#target(),
      method: 'POST',
      path,
      headers: { authorization: `Bearer ${token}`, 'content-length': length },
      // A kept connection may belong to a broker that was replaced.
      agent: false,
      signal,
    }
    return new Promise((resolve, reject) => {
      const request = httpRequest(options, resolve)
      request.once('error', reject)
      if (hostFile) pipeline(hostFile.stream(), request).catch(reject)
      else request.end(body)
    })
  }

  #target(): RequestOptions {
    const { address } = this.#options
    if (!/^https?:/.test(address)) return { socketPath: address, host: 'localhost' }
    const { hostname, port } = new URL(address)
    return { host: hostname, port }
  }

  #start(error: unknown): Promise<void> {
    const { start, address } = this.#options
    if (!start)
      throw new SandboxError('unavailable', `No broker answers at ${address}.`, {
        hint: 'Start one: sandkasten mcp broker.',
        cause: error,
      })
    this.#starting ??= start().finally(() => {
      this.#starting = undefined
    })
    return this.#starting
  }
}

interface Ask {
  readonly name: string
  readonly input: unknown
  readonly token: string
}

/** Nothing was sent. */
function isAbsent(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code
  return code === 'ENOENT' || code === 'ECONNREFUSED'
}

function lost(message: string, cause?: unknown): SandboxError {
  return new SandboxError('connection_lost', message, {
    cause,
    hint: 'What it has started in the sandbox may still run: status lists it, and read_process returns its output. The next call uses a new broker.',
  })
}

async function refusal(response: IncomingMessage): Promise<SandboxError> {
  const text = await bodyOf(response)
  if (response.statusCode === 401)
    return new SandboxError('unauthenticated', 'The broker does not accept the token of this sandbox.', {
      hint: 'The sandbox was destroyed, or the token was revoked. Make a new one: sandkasten mcp token NAME.',
    })
  const code = response.statusCode === 429 ? 'rate_limited' : 'provider_error'
  return new SandboxError(code, `The broker refused the call: ${oneLine(text, 300)}`)
}

async function bodyOf(response: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of response) {
    text += chunk
    if (text.length > 10_000) break
  }
  try {
    return JSON.parse(text).message
  } catch {
    return text
  }
}

function textOf(error: unknown): string {
  if (SandboxError.is(error)) return `${oneLine(error.message, 500)} ${error.hints.cli}`
  return `The broker cannot be used: ${oneLine((error as Error).message, 500)}`
}
