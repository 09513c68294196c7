import type { IncomingMessage, ServerResponse } from 'node:http'
import type { CalledTool, ToolCaller } from '../calls/index.ts'
import { isForLoopback } from '../server/loopback.ts'
import { readJson } from '../server/read-json.ts'
import { type HostFile, limits } from '../tools/index.ts'
import type { Handles, SandboxGrant } from './handles.ts'
import { type BrokerMessage, beatMs, maxInputBytes } from './protocol.ts'

export interface BrokerCallsOptions {
  readonly handles: Handles
  readonly callerOf: (grant: SandboxGrant) => ToolCaller
  readonly onReport: (line: string) => void
}

/** The broker’s HTTP requests. */
export class BrokerCalls {
  readonly #options: BrokerCallsOptions
  readonly #running = new Map<string, number>()
  readonly #ending = new AbortController()
  #idleSince = Date.now()
  #addressesUntil = 0

  constructor(options: BrokerCallsOptions) {
    this.#options = options
  }

  get running(): number {
    return [...this.#running.values()].reduce((sum, count) => sum + count, 0)
  }

  get idleForMs(): number {
    return this.running > 0 || Date.now() < this.#addressesUntil ? 0 : Date.now() - this.#idleSince
  }

  abort(): void {
    this.#ending.abort()
  }

  /** For the listener that other users and web pages can reach. */
  serveLoopback(request: IncomingMessage, response: ServerResponse): void {
    if (isForLoopback(request)) this.serve(request, response)
    else refuse(response, 403, 'Host or Origin is not this machine.')
  }

  serve(request: IncomingMessage, response: ServerResponse): void {
    this.#serve(request, response).catch((error: Error) => {
      this.#options.onReport(`a call failed: ${error.stack ?? error.message}`)
      response.destroy()
    })
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const token = /^Bearer (.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? ''
    const grant = this.#options.handles.find(token)
    if (!grant) return refuse(response, 401, 'The token is wrong, or was revoked.')
    const url = URL.parse(request.url ?? '', 'http://x')
    const tool = url?.pathname === '/v1/uploads' ? 'upload_file' : toolIn(url?.pathname)
    if (request.method !== 'POST' || tool === undefined)
      return refuse(response, 404, 'There is no such call.')
    const running = this.#running.get(grant.sandboxId) ?? 0
    if (running >= maxCalls) return refuse(response, 429, `More than ${maxCalls} calls run in this sandbox.`)
    this.#running.set(grant.sandboxId, running + 1)
    try {
      const isUpload = url?.pathname === '/v1/uploads'
      const input = isUpload ? uploadInput(url!) : await readJson(request, maxInputBytes)
      if ('problem' in input) return refuse(response, input.status, input.problem)
      await this.#call({ grant, tool, input: input.value, request, response, isUpload })
    } finally {
      this.#idleSince = Date.now()
      const left = this.#running.get(grant.sandboxId)! - 1
      if (left > 0) this.#running.set(grant.sandboxId, left)
      else this.#running.delete(grant.sandboxId)
    }
  }

  async #call({ grant, tool, input, request, response, isUpload }: BrokerCall): Promise<void> {
    const gone = new AbortController()
    response.once('close', () => {
      if (!response.writableFinished) gone.abort()
    })
    const signal = AbortSignal.any([gone.signal, this.#ending.signal])
    response.writeHead(200, { 'content-type': 'application/x-ndjson' })
    const say = (message: BrokerMessage) => {
      if (!response.destroyed) response.write(`${JSON.stringify(message)}\n`)
    }
    const beat = setInterval(() => say({ type: 'beat' }), beatMs)
    try {
      const called = await this.#options.callerOf(grant).call(tool, input, {
        signal,
        onProgress: (message) => say({ type: 'progress', message }),
        ...(isUpload && { hostFile: uploadedFile(request) }),
      })
      if (tool === 'get_url') this.#keepForwarding(called)
      // A caller that is gone reads no result. Most responses are one packet: each wakes the caller's process.
      const message: BrokerMessage = { type: 'result', ...called }
      if (!signal.aborted) response.end(`${JSON.stringify(message)}\n`)
    } finally {
      clearInterval(beat)
      response.end()
    }
  }

  /** This process may forward the port, so it stays for some time. */
  #keepForwarding({ result }: CalledTool): void {
    if (!result.isError) this.#addressesUntil = Date.now() + addressMs
  }
}

interface BrokerCall {
  readonly grant: SandboxGrant
  readonly tool: string
  readonly input: unknown
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly isUpload: boolean
}

const maxCalls = 64
const addressMs = 8 * 3_600_000

function toolIn(pathname: string | undefined): string | undefined {
  return /^\/v1\/tools\/([a-z_]{1,40})$/.exec(pathname ?? '')?.[1]
}

function uploadInput({ searchParams }: URL): { value: unknown } | { status: number; problem: string } {
  const remotePath = searchParams.get('remotePath')
  if (remotePath === null) return { status: 400, problem: 'remotePath is missing.' }
  return { value: { remotePath, localPath: searchParams.get('localPath') ?? 'file' } }
}

function uploadedFile(request: IncomingMessage): HostFile {
  const sizeBytes = Number(request.headers['content-length'] ?? Number.NaN)
  return { name: 'file', sizeBytes, stream: () => bounded(request, sizeBytes) }
}

/** A connection that ends early throws, so that no partial file is written. */
async function* bounded(request: AsyncIterable<Uint8Array>, sizeBytes: number): AsyncGenerator<Uint8Array> {
  let size = 0
  for await (const chunk of request) {
    size += chunk.byteLength
    if (size > limits.uploadBytes) throw new Error(`The file is larger than ${limits.uploadBytes} bytes.`)
    yield chunk
  }
  if (size !== sizeBytes) throw new Error('The file has changed while it was uploaded.')
}

function refuse(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ message }))
}
