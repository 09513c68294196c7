import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import type { SandboxHandle } from '@sandkasten/sdk'
import { type WebSocket, WebSocketServer } from 'ws'
import type { EngineProvider } from '../../../packages/engine/src/provider/engine-provider.ts'
import { serveExec, serveExecOverHttp } from './exec.ts'
import { serveProxy } from './proxy.ts'

export interface Sprite {
  readonly id: string
  readonly name: string
  readonly sandbox: SandboxHandle
  readonly created_at: string
  labels: string[]
  status: string
}

export interface SpritesDoubleOptions {
  readonly engine: EngineProvider
  readonly token: string
  /** The most sprites at a time. */
  readonly limit?: number
  /** Create sprites as the isolated engine's sandboxes with these options. */
  readonly create?: Parameters<EngineProvider['create']>[0]
}

/** The wire of Sprites' API, backed by sandboxes of the engine. See the README for what it leaves out. */
export class SpritesDouble {
  readonly sprites = new Map<string, Sprite>()
  readonly #options: SpritesDoubleOptions
  /** Resolve when the sprite can be found, or was not made. */
  readonly #names = new Map<string, Promise<void>>()
  readonly #gone: Sprite[] = []
  readonly #sockets = new WebSocketServer({ noServer: true })
  readonly #server: Server
  url = ''
  /** Called with the address of each request. */
  onRequest: ((url: string) => void) | undefined

  private constructor(options: SpritesDoubleOptions) {
    this.#options = options
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch((error: unknown) => {
        if (response.headersSent) response.destroy()
        else send(response, error instanceof Refusal ? error.status : 500, { error: String(error) })
      })
    })
    this.#server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) =>
      this.#upgrade(request, socket, head),
    )
  }

  static async start(options: SpritesDoubleOptions): Promise<SpritesDouble> {
    const double = new SpritesDouble(options)
    double.#server.listen(0, '127.0.0.1')
    await once(double.#server, 'listening')
    double.url = `http://127.0.0.1:${(double.#server.address() as AddressInfo).port}`
    return double
  }

  /** The engine's id of a sprite's sandbox. */
  sandboxOf(sandboxId: string): string {
    const sprite = [...this.sprites.values(), ...this.#gone].find(({ id }) => sandboxId.endsWith(id))
    if (!sprite) throw new Error(`There never was a sprite ${sandboxId}.`)
    return sprite.sandbox.sandboxId
  }

  /** Restarts the machine of a sprite, as the vendor does by itself. */
  async restart(sandboxId: string): Promise<void> {
    const sprite = [...this.sprites.values()].find(({ id }) => sandboxId.endsWith(id))
    await sprite!.sandbox.stop()
    await sprite!.sandbox.start()
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets.clients) socket.terminate()
    this.#server.close().closeAllConnections()
    await Promise.all([...this.sprites.values()].map(({ sandbox }) => sandbox.destroy()))
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.onRequest?.(request.url!)
    const url = new URL(request.url!, 'http://double')
    const [, , , encoded, ...rest] = url.pathname.split('/')
    const name = encoded === undefined ? undefined : decodeURIComponent(encoded)
    this.#authorize(request)
    const { method } = request
    if (name === undefined) {
      if (method === 'POST') return send(response, 201, await this.#create(await json(request)))
      if (method === 'GET') return send(response, 200, this.#list(url.searchParams))
      throw new Refusal(405)
    }
    const sprite = this.#find(name)
    if (rest.length === 0) {
      if (method === 'GET') return send(response, 200, facts(sprite))
      if (method === 'PUT') {
        const { labels } = await json(request)
        if (Array.isArray(labels)) sprite.labels = labels.map(String)
        return send(response, 200, facts(sprite))
      }
      if (method === 'DELETE') {
        this.sprites.delete(name)
        this.#gone.push(sprite)
        await sprite.sandbox.destroy()
        this.#names.delete(name)
        return void response.writeHead(204).end()
      }
    }
    if (rest.join('/') === 'exec' && method === 'POST')
      return serveExecOverHttp(sprite.sandbox, url.searchParams, request, response)
    throw new Refusal(404)
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy())
    try {
      this.#authorize(request)
      this.onRequest?.(request.url!)
      const url = new URL(request.url!, 'http://double')
      const [, , , encoded = '', verb = ''] = url.pathname.split('/')
      const sprite = this.#find(decodeURIComponent(encoded))
      const serve = (client: WebSocket): void =>
        verb === 'exec'
          ? serveExec(sprite.sandbox, url.searchParams, client)
          : serveProxy(this.#options.engine, sprite.sandbox.sandboxId, client)
      if (verb !== 'exec' && verb !== 'proxy') throw new Refusal(404)
      sprite.status = 'running'
      this.#sockets.handleUpgrade(request, socket, head, serve)
    } catch (error) {
      const status = error instanceof Refusal ? error.status : 500
      socket.end(`HTTP/1.1 ${status} No\r\nconnection: close\r\n\r\n`)
    }
  }

  #authorize({ headers }: IncomingMessage): void {
    if (headers.authorization !== `Bearer ${this.#options.token}`) throw new Refusal(401)
  }

  #find(name: string): Sprite {
    const sprite = this.sprites.get(name)
    if (sprite) return sprite
    throw new Refusal(404)
  }

  async #create(body: Record<string, unknown>): Promise<object> {
    const { name, labels = [], environment = {} } = body
    const { engine, limit = Infinity, create } = this.#options
    if (typeof name !== 'string' || !/^[a-z0-9][a-z0-9-]{0,62}$/.test(name) || !Array.isArray(labels))
      throw new Refusal(400)
    const known = this.#names.get(name)
    if (known) {
      await known
      throw new Refusal(400, 'name already exists')
    }
    if (this.#names.size >= limit) throw new Refusal(429, 'concurrent_sprite_limit_exceeded')
    const made = Promise.withResolvers<void>()
    this.#names.set(name, made.promise)
    try {
      const envVars = environment as Record<string, string>
      const sandbox = (await engine.create({ ...create, envVars })) as unknown as SandboxHandle
      const sprite: Sprite = {
        id: randomUUID(),
        name,
        sandbox,
        created_at: new Date().toISOString(),
        labels: labels.map(String),
        status: 'cold',
      }
      this.sprites.set(name, sprite)
      return facts(sprite)
    } catch (error) {
      this.#names.delete(name)
      throw error
    } finally {
      made.resolve()
    }
  }

  /** Sorted by name; the token is the last name of the page. */
  #list(query: URLSearchParams): object {
    const most = Math.min(Number(query.get('max_results') ?? 50), 50)
    const after = query.get('continuation_token') ?? ''
    const all = [...this.sprites.values()]
      .filter(({ name }) => name.startsWith(query.get('prefix') ?? '') && name > after)
      .sort((a, b) => (a.name < b.name ? -1 : 1))
    const page = all.slice(0, most)
    const more = all.length > page.length
    return {
      sprites: page.map(facts),
      has_more: more,
      next_continuation_token: more ? page.at(-1)?.name : null,
    }
  }
}

class Refusal extends Error {
  readonly status: number

  constructor(status: number, code = `refused_${status}`) {
    super(code)
    this.status = status
  }

  override toString(): string {
    return this.message
  }
}

function facts({ sandbox: _, ...sprite }: Sprite): object {
  return { ...sprite, organization: 'double', updated_at: sprite.created_at }
}

async function json(request: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
