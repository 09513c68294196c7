import { randomUUID } from 'node:crypto'
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { SandboxError } from '@sandkasten/sdk'
import type { WebSocket } from 'ws'
import { answerAndClose } from '../http/closing-connections.ts'
import { problemOf, problemType } from '../http/problems.ts'
import { addressOf } from '../http/request.ts'
import type { Services } from '../http/services.ts'
import { socketServer } from '../http/websockets.ts'
import { type Caller, includes, type Scope } from '../keys/index.ts'

/** A WebSocket route. Refusals are answered with a problem before the upgrade. */
export interface SocketRoute {
  /** The action in the audit log. */
  readonly id: string
  /** Has a named group for each parameter; `id` is the session. */
  readonly path: RegExp
  readonly access: Scope
  connect(call: SocketCall): Promise<(socket: WebSocket) => Promise<void>>
}

export interface SocketCall {
  readonly caller: Caller
  readonly params: Record<string, string>
  readonly query: URLSearchParams
  readonly request: IncomingMessage
  /** Fires when the daemon stops, or the caller's key is no longer valid. */
  readonly signal: AbortSignal
}

/** Browsers cannot send headers with a WebSocket, so they send the key as a second protocol, `sandkasten.key.<key>`. */
const keyProtocol = 'sandkasten.key.'

export function handleUpgrades(server: Server, services: Services, routes: readonly SocketRoute[]): void {
  const sockets = socketServer((offered) => (offered.has('sandkasten') ? 'sandkasten' : false))
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', () => socket.destroy())
    const requestId = randomUUID()
    const enter = (caller: Caller) => {
      const { signal, leave } = services.streams.enter(caller)
      socket.once('close', leave)
      return signal
    }
    find(services, routes, request, { requestId, enter }).then(
      (connected) =>
        sockets.handleUpgrade(request, socket, head, (webSocket) => {
          webSocket.on('error', () => webSocket.terminate())
          connected(webSocket).catch((error: unknown) => {
            const { code, status } = problemOf(error)
            webSocket.close(status >= 500 ? 1011 : 4000 + status, code)
          })
        }),
      (error: unknown) => refuse(socket, error, requestId),
    )
  })
}

async function find(
  services: Services,
  routes: readonly SocketRoute[],
  request: IncomingMessage,
  { requestId, enter }: { requestId: string; enter: (caller: Caller) => AbortSignal },
): Promise<(socket: WebSocket) => Promise<void>> {
  const { path, query } = addressOf(request)
  for (const route of routes) {
    const match = route.path.exec(path)
    if (!match) continue
    const caller = await services.keys.authenticate(authorization(request), requestId)
    if (!includes(caller.scopes, route.access))
      throw new SandboxError('forbidden', `This needs a key with the scope “${route.access}”.`)
    const connected = await route.connect({
      caller,
      params: { ...match.groups },
      query,
      request,
      signal: enter(caller),
    })
    services.audit.add(caller, { action: route.id, target: match.groups?.id, status: 101 })
    return connected
  }
  throw new SandboxError('not_found', 'There is no WebSocket here.')
}

function authorization({ headers }: IncomingMessage): string | undefined {
  if (headers.authorization !== undefined) return headers.authorization
  const offered = (headers['sec-websocket-protocol'] ?? '').split(',').map((protocol) => protocol.trim())
  const key = offered.find((protocol) => protocol.startsWith(keyProtocol))
  return key && `Bearer ${key.slice(keyProtocol.length)}`
}

function refuse(socket: Duplex, error: unknown, requestId: string): void {
  const problem = problemOf(error, requestId)
  answerAndClose(socket, {
    status: problem.status,
    title: problem.title,
    type: problemType,
    body: JSON.stringify(problem),
    headers: { 'x-request-id': requestId },
  })
}
