import { randomBytes } from 'node:crypto'
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { SandboxProvider } from '@sandkasten/sdk'
import { agent } from './agent.ts'
import type { Answer } from './answers.ts'
import { controlPlane } from './control-plane.ts'
import { Sandboxes } from './sandboxes.ts'

export interface HopxDoubleOptions {
  readonly engine: SandboxProvider
  readonly templates?: readonly string[]
  /**
   * `names`: the vendor's own, `http://7777-ID.eu-1.vms.hopx.dev:PORT`; see `names.ts`. `paths`: below the address of the
   * API, so that one proxy carries all requests.
   */
  readonly hosts: 'names' | 'paths'
}

/** A server that speaks Hopx's wire, over real sandboxes of the engine. README.md lists its limits. */
export class HopxDouble {
  readonly apiKey = `hopx_live_${randomBytes(16).toString('hex')}`
  readonly sandboxes: Sandboxes
  url = ''
  readonly #options: HopxDoubleOptions
  readonly #open = new Set<Socket>()
  readonly #server = createServer((incoming, response) => {
    this.#handle(incoming, response).catch((error: unknown) => {
      if (!response.headersSent) response.writeHead(500)
      response.end(JSON.stringify({ code: 'INTERNAL_ERROR', message: String(error) }))
    })
  })

  private constructor(options: HopxDoubleOptions) {
    this.#options = options
    this.sandboxes = new Sandboxes(options.engine)
  }

  static async start(options: HopxDoubleOptions): Promise<HopxDouble> {
    const double = new HopxDouble(options)
    double.#server.on('connection', (socket) => {
      double.#open.add(socket)
      socket.once('close', () => double.#open.delete(socket))
    })
    await new Promise<void>((resolve) => double.#server.listen(0, '127.0.0.1', resolve))
    double.url = `http://127.0.0.1:${(double.#server.address() as AddressInfo).port}`
    return double
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    for (const socket of this.#open) socket.destroy()
    await closed
    await this.sandboxes.clear()
  }

  #hostOf(id: string): string {
    const { port } = new URL(this.url)
    return this.#options.hosts === 'names'
      ? `http://7777-${id}.eu-1.vms.hopx.dev:${port}`
      : `${this.url}/agents/${id}`
  }

  async #handle(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(incoming.url ?? '/', this.url)
    const [, port, named] = /^(\d+)-([^.]+)\.[^.]+\.vms\.hopx\.dev/.exec(incoming.headers.host ?? '') ?? []
    if (named !== undefined && port !== '7777') return this.#visit(named, Number(port), incoming, response)
    const [, below, rest] = /^\/agents\/([^/]+)(\/.*)$/.exec(url.pathname) ?? []
    const id = named ?? below
    const request = {
      method: incoming.method ?? '',
      path: rest ?? url.pathname,
      query: url.searchParams,
      headers: incoming.headers,
      body: await bodyOf(incoming),
    }
    const { apiKey, sandboxes } = this
    const { templates = ['code-interpreter'] } = this.#options
    const options = { apiKey, templates, sandboxes, hostOf: (own: string) => this.#hostOf(own) }
    const answer =
      id === undefined ? await controlPlane(request, options) : await agent(request, sandboxes.get(id))
    send(response, answer)
  }

  /** A request to a port of a sandbox. */
  async #visit(id: string, port: number, incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const machine = this.sandboxes.get(id)
    if (machine?.status !== 'running') return send(response, { status: 502, html: '<html>Gone</html>' })
    const { url, headers } = await machine.handle.getEndpoint(port)
    const { method, headers: own } = incoming
    const outgoing = httpRequest(`${url.replace(/\/$/, '')}${incoming.url}`, {
      method,
      headers: { ...own, ...headers },
    })
    outgoing.on('error', () => send(response, { status: 502, html: '<html>Refused</html>' }))
    outgoing.on('response', (got) => {
      response.writeHead(got.statusCode ?? 502, got.headers)
      got.pipe(response)
    })
    incoming.pipe(outgoing)
  }
}

function send(response: ServerResponse, { status, body, bytes, html }: Answer): void {
  if (response.headersSent) return void response.destroy()
  const content = bytes ?? html ?? (body === undefined ? '' : JSON.stringify(body))
  const type = bytes ? 'application/octet-stream' : html ? 'text/html' : 'application/json'
  response.writeHead(status, {
    'content-type': type,
    'x-request-id': `req-${randomBytes(6).toString('hex')}`,
  })
  response.end(content)
}

async function bodyOf(incoming: IncomingMessage): Promise<unknown> {
  if (incoming.method === 'GET' || incoming.method === 'DELETE') return undefined
  const chunks: Buffer[] = []
  for await (const chunk of incoming) chunks.push(chunk as Buffer)
  try {
    return JSON.parse(Buffer.concat(chunks).toString())
  } catch {
    return undefined
  }
}
