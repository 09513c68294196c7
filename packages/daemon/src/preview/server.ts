import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { SandboxError } from '@sandkasten/sdk'
import { answerAndClose, limitUnreadBodies, refusalCloses } from '../http/closing-connections.ts'
import { problemOf, problemType } from '../http/problems.ts'
import type { Caller, KeyRing } from '../keys/index.ts'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import {
  type Addresses,
  type Connections,
  nothingHere,
  type Target,
  type Visit,
  type Visits,
} from '../ports/index.ts'
import { withoutCredentials } from './credential-filter.ts'
import { cookieName } from './credential-names.ts'
import { type Brought, broughtBy } from './credentials.ts'
import { forward } from './forward.ts'
import { type Passing, requestHeaders } from './request-headers.ts'
import { asksForWebSocket, tunnel } from './tunnel.ts'

export interface PreviewOptions {
  readonly visits: Visits
  readonly connections: Connections
  readonly keys: KeyRing
  readonly metrics: Metrics
  readonly log: Log
  readonly behindProxy: boolean
  /** Timeouts for the head of a request and for the next chunk of its body. */
  readonly headMs: number
  readonly bodyIdleMs: number
}

/**
 * The listener for previews of open ports.
 *
 *     visitor ──► host or path names the port ──► key, token, link, cookie ──► new head ──► the sandbox's port
 *
 * It is separate from the API, so that no page of a sandbox shares an origin with the API.
 */
export class PreviewServer {
  readonly #options: PreviewOptions
  readonly #server: Server
  #addresses: Addresses | undefined

  constructor(options: PreviewOptions) {
    this.#options = options
    this.#server = createServer({
      insecureHTTPParser: false,
      requireHostHeader: true,
      headersTimeout: options.headMs,
      connectionsCheckingInterval: options.headMs / 2,
      // Uploads and event streams may take long. Readers of a body detect a sender that stops.
      requestTimeout: 0,
      keepAliveTimeout: 72_000,
      maxHeaderSize: 32_768,
    })
    limitUnreadBodies(this.#server)
    this.#server.on('request', (request, response) => void this.#request(request, response))
    this.#server.on('upgrade', (request, socket, head) => void this.#upgrade(request, socket, head))
    this.#server.on('clientError', (_, socket) => {
      if (!socket.writable) return void socket.destroy()
      refuse(socket, new SandboxError('invalid_argument', 'The request is not valid HTTP.'))
    })
  }

  /** Returns the URL of the listener. */
  async listen({ host, port }: { host: string; port: number }): Promise<string> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', (cause: NodeJS.ErrnoException) =>
        reject(
          new SandboxError('conflict', `Previews cannot be served on ${host}:${port} (${cause.code}).`, {
            cause,
            hint: 'Choose another address with preview_listen, or set preview_listen: "off".',
          }),
        ),
      )
      this.#server.listen(port, host, resolve)
    })
    const at = this.#server.address() as { port: number }
    return `http://${host.includes(':') ? `[${host}]` : host}:${at.port}`
  }

  serve(addresses: Addresses): void {
    this.#addresses = addresses
  }

  async close(): Promise<void> {
    this.#options.connections.cutAll()
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.#server.closeAllConnections()
    await closed
  }

  async #request(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { visits, connections, metrics, bodyIdleMs } = this.#options
    response.once('close', () =>
      metrics.count('sandkasten_preview_requests_total', { status: response.statusCode }),
    )
    response.on('error', () => response.destroy())
    let leave = () => {}
    try {
      const { target, brought, visit, passing, requestId } = await this.#admit(request)
      const entry = this.#entry(request, target, brought, visit)
      if (entry) return void response.writeHead(302, entry).end()
      if (target.form === 'path' && !target.rest.startsWith('/'))
        return void response.writeHead(308, { location: `${target.prefix}/${target.rest}` }).end()
      leave = connections.enter(target.id, target.port, () => response.destroy())
      const port = await visits.reach(visit, requestId)
      await forward(request, response, {
        port,
        target,
        path: passing.passable.path,
        headers: requestHeaders(request, passing),
        bodyIdleMs,
        touch: () => visits.touch(visit),
      })
    } catch (error) {
      await this.#answer(request, response, error)
    } finally {
      leave()
    }
  }

  async #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on('error', () => socket.destroy())
    const { visits, connections, metrics } = this.#options
    let leave = () => {}
    try {
      const { target, visit, passing, requestId } = await this.#admit(request)
      if (!asksForWebSocket(request))
        throw new SandboxError('invalid_argument', 'Only WebSocket upgrades are supported.', {
          hint: 'Leave the header Upgrade out.',
        })
      leave = connections.enter(target.id, target.port, () => socket.destroy())
      const port = await visits.reach(visit, requestId)
      metrics.count('sandkasten_preview_requests_total', { status: 101 })
      await tunnel(socket, head, {
        port,
        target,
        path: passing.passable.path,
        headers: requestHeaders(request, passing, true),
        touch: () => visits.touch(visit),
      })
    } catch (error) {
      refuse(socket, error)
    } finally {
      leave()
    }
  }

  async #admit(request: IncomingMessage): Promise<Admitted> {
    const requestId = randomUUID()
    const addresses = this.#addresses
    refuseOdd(request)
    const target = addresses?.find(request.headers.host ?? '', request.url!)
    if (!addresses || !target) throw nothingHere()
    const brought = broughtBy(request, target, addresses.secure)
    const callers = await Promise.all(brought.keys.map((key) => this.#callerOf(key, requestId)))
    const caller = callers.find((found): found is Caller => found !== undefined && !SandboxError.is(found))
    const unknown = callers.find((found) => SandboxError.is(found))
    const visit = await this.#options.visits
      .admit(target, { tokens: [...brought.tokens, ...brought.cookies], caller })
      .catch((error) => {
        throw unknown ?? error
      })
    const passing: Passing = {
      target,
      passable: await withoutCredentials(request, brought.path, this.#options.keys),
      secure: addresses.secure,
      behindProxy: this.#options.behindProxy,
    }
    return { target, brought, visit, passing, requestId }
  }

  /** Replaces the token of a followed link with a cookie, and redirects to the URL without the token. */
  #entry(
    { method, headers }: IncomingMessage,
    target: Target,
    { queryToken, path }: Brought,
    { token, expiresAt }: Visit,
  ): Record<string, string> | undefined {
    const page = headers['sec-fetch-mode'] === 'navigate' || headers.accept?.includes('text/html')
    if (target.form !== 'name' || method !== 'GET' || !page) return undefined
    if (queryToken === undefined || queryToken !== token) return undefined
    const addresses = this.#addresses!
    const seconds = expiresAt === undefined ? undefined : Math.ceil((expiresAt - Date.now()) / 1000)
    const attributes = [
      `${cookieName(addresses.secure)}=${token}`,
      'Path=/',
      'HttpOnly',
      'SameSite=Lax',
      ...(addresses.secure ? ['Secure'] : []),
      ...(seconds === undefined ? [] : [`Max-Age=${seconds}`]),
    ]
    return {
      // An absolute URL, because a path that begins with two slashes would name another host.
      location: `${addresses.url(target.id, target.port)}${path}`,
      'set-cookie': attributes.join('; '),
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
    }
  }

  /**
   * Undefined for a credential that does not work here. The application behind the preview may have tokens of the same
   * issuer, so a token without a project is the application's. Returns the error for a token that cannot be verified now.
   */
  async #callerOf(header: string, requestId: string): Promise<Caller | SandboxError | undefined> {
    try {
      return await this.#options.keys.authenticate(header, requestId)
    } catch (error) {
      if (SandboxError.is(error, 'unauthenticated', 'forbidden')) return undefined
      if (SandboxError.is(error, 'unavailable') && this.#options.keys.isToken(header)) return error
      throw error
    }
  }

  async #answer(request: IncomingMessage, response: ServerResponse, error: unknown): Promise<void> {
    const problem = problemOf(error)
    if (problem.code === 'internal') this.#options.log.error({ err: error }, 'unexpected error in a preview')
    const close = await refusalCloses(request)
    if (response.headersSent || response.destroyed) return void response.destroy()
    const body = JSON.stringify(problem)
    response.writeHead(problem.status, {
      'content-type': problemType,
      'content-length': Buffer.byteLength(body),
      'cache-control': 'no-store',
      ...(close ? { connection: 'close' } : {}),
    })
    response.end(body)
  }
}

interface Admitted {
  readonly target: Target
  readonly brought: Brought
  readonly visit: Visit
  readonly passing: Passing
  readonly requestId: string
}

/** Refuses requests that a parser accepts, but that two servers could read differently. */
export function refuseOdd({ method, url = '', headers, rawHeaders }: IncomingMessage): void {
  const count = (name: string) =>
    rawHeaders.filter((text, index) => index % 2 === 0 && text.toLowerCase() === name).length
  const encoding = headers['transfer-encoding']
  if (
    !url.startsWith('/') ||
    method === 'TRACE' ||
    method === 'CONNECT' ||
    count('host') !== 1 ||
    count('content-length') > 1 ||
    (encoding !== undefined &&
      (encoding.toLowerCase() !== 'chunked' || headers['content-length'] !== undefined))
  )
    throw new SandboxError('invalid_argument', 'The request is ambiguous and is not forwarded.', {
      hint: 'Send one Host, a path, and either Content-Length or Transfer-Encoding: chunked.',
    })
}

function refuse(socket: Duplex, error: unknown): void {
  const problem = problemOf(error)
  const { status, title } = problem
  answerAndClose(socket, { status, title, type: problemType, body: JSON.stringify(problem) })
}
