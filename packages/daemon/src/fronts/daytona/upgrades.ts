import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { SandboxError } from '@sandkasten/sdk'
import type { WebSocket } from 'ws'
import { answerAndClose } from '../../http/closing-connections.ts'
import { translate } from '../../http/problems.ts'
import { addressOf } from '../../http/request.ts'
import { closeWith, socketServer, watchOver } from '../../http/websockets.ts'
import type { Caller } from '../../keys/index.ts'
import type { FrontPlace } from '../front.ts'
import { notSupported, parsed } from '../shared/request.ts'
import { callerOf } from './entry.ts'
import type { EventSockets } from './event-sockets.ts'
import { refuse } from './refusal.ts'
import { type Ptys, ptySchema } from './toolbox/pty.ts'
import { streamLogs, type ToolboxSessions } from './toolbox/sessions.ts'
import { sandboxOf } from './views.ts'

export interface SocketParts {
  readonly place: FrontPlace
  readonly sessions: ToolboxSessions
  readonly ptys: Ptys
  readonly events: EventSockets
}

export interface Upgrades {
  take(request: IncomingMessage, socket: Duplex, head: Buffer): void
  /** Closes all connections, and waits a short time for their clients. */
  close(): Promise<void>
}

const closeMs = 500

interface Found {
  /** The caller, if the key came with the upgrade request. */
  readonly caller?: Caller
  /** The action in the audit log, if there is a caller. */
  readonly action?: string
  readonly target?: string
  serve(socket: WebSocket, leaving: AbortSignal): Promise<void>
}

const exitControl = 'X-Daytona-Pty-Exit-Control'
const environmentPrefix = 'X-Daytona-Pty-Envs~'

/** Daytona's WebSockets: events, live output, terminals. Refusals are answered before the upgrade. */
export function takeUpgrades(parts: SocketParts): Upgrades {
  const open = new Set<Duplex>()
  const closing = new AbortController()
  const { audit, streams } = parts.place.services
  // Other offered protocols may carry the environment, which must not be echoed.
  const server = socketServer((offered) => (offered.has(exitControl) ? exitControl : false))
  const begin = (webSocket: WebSocket, { caller, action, target, serve }: Found): void => {
    if (caller) audit.add(caller, { action: `daytona ${action}`, target, status: 101 })
    const { signal, leave } = streams.enter(caller)
    const ending = AbortSignal.any([closing.signal, signal])
    const gone = new AbortController()
    webSocket.once('close', () => {
      leave()
      gone.abort()
    })
    webSocket.on('error', () => webSocket.terminate())
    watchOver(webSocket)
    closeWith(webSocket, ending)
    serve(webSocket, AbortSignal.any([ending, gone.signal])).catch((error: unknown) =>
      // The client shows this reason. It stays below the limit of 123 bytes.
      webSocket.close(1011, JSON.stringify({ error: translate(error).code })),
    )
  }
  const take = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
    const requestId = randomUUID()
    find(parts, request, requestId).then(
      (found) => server.handleUpgrade(request, socket, head, (webSocket) => begin(webSocket, found)),
      (error: unknown) => answer(socket, request, requestId, error),
    )
  }
  return {
    take,
    async close() {
      closing.abort()
      const startedAt = performance.now()
      while (open.size > 0 && performance.now() - startedAt < closeMs)
        await new Promise((resolve) => setTimeout(resolve, 5))
      for (const socket of open) socket.destroy()
    },
  }
}

async function find(
  { place, sessions, ptys, events }: SocketParts,
  request: IncomingMessage,
  requestId: string,
): Promise<Found> {
  const { path: whole, query } = addressOf(request)
  // The client sends the key in its first message.
  if (whole === '/api/socket.io/') return events.next()
  const [, id, path] = /^\/toolbox\/([^/]+)\/process\/(.+)$/.exec(whole) ?? []
  if (id === undefined || path === undefined) throw noSocket()
  const caller = await callerOf(place, request.headers.authorization, requestId, 'exec')
  const sandbox = await sandboxOf(place, caller, decoded(id))
  const known = (pattern: string) => ({
    caller,
    action: `GET /toolbox/:id/process/${pattern}`,
    target: sandbox.id,
  })
  const logs = /^session\/([^/]+)\/command\/([^/]+)\/logs$/.exec(path)
  if (logs) {
    const address = { sessionId: decoded(logs[1]!), execId: decoded(logs[2]!) }
    const found = await place.services.sessions.use.use(
      caller,
      sandbox.id,
      (used) => sessions.command(used, address),
      { wake: false },
    )
    const serve: Found['serve'] = (socket, leaving) => streamLogs(socket, found, leaving)
    return { ...known('session/:session/command/:command/logs'), serve }
  }
  if (path === 'pty/create-connect') {
    const wanted = parsed(ptySchema, { ...Object.fromEntries(query), envs: environmentOf(request) })
    await ptys.open(caller, sandbox.id, wanted)
    return { ...known(path), serve: await ptys.connect(caller, sandbox.id, wanted.id) }
  }
  const pty = /^pty\/([^/]+)\/connect$/.exec(path)
  if (pty)
    return {
      ...known('pty/:pty/connect'),
      serve: await ptys.connect(caller, sandbox.id, decoded(pty[1]!)),
    }
  if (path.startsWith('interpreter/')) throw notSupported('An interpreter that keeps its state')
  throw noSocket()
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch (cause) {
    throw new SandboxError('invalid_argument', 'The path is not valid.', { cause })
  }
}

function noSocket(): SandboxError {
  return new SandboxError('not_found', 'There is no WebSocket here.')
}

function environmentOf({ headers }: IncomingMessage): unknown {
  const offered = (headers['sec-websocket-protocol'] ?? '').split(',').map((protocol) => protocol.trim())
  const given = offered.find((protocol) => protocol.startsWith(environmentPrefix))
  if (given === undefined) return undefined
  try {
    return JSON.parse(Buffer.from(given.slice(environmentPrefix.length), 'base64url').toString())
  } catch (cause) {
    throw new SandboxError('invalid_argument', 'The terminal’s environment is not JSON.', { cause })
  }
}

function answer(socket: Duplex, request: IncomingMessage, requestId: string, error: unknown): void {
  const { status, body } = refuse(translate(error), {
    id: requestId,
    method: request.method ?? 'GET',
    url: request.url ?? '/',
  })
  answerAndClose(socket, {
    status,
    title: body.code,
    type: 'application/json',
    body: JSON.stringify(body),
    headers: { 'x-request-id': requestId },
  })
}
