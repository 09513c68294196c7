import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { SandboxError } from '@sandkasten/sdk'
import { type WebSocket, WebSocketServer } from 'ws'
import { translate } from '../../api/problems.ts'
import type { FrontPlace } from '../front.ts'
import { callerOf, checked, notSupported } from './call.ts'
import { serveEvents } from './event-socket.ts'
import { refuse } from './refuse.ts'
import { sandboxOf } from './sandboxes.ts'
import { type Ptys, ptySchema } from './toolbox/pty.ts'
import { streamLogs, type ToolboxSessions } from './toolbox/sessions.ts'

export interface SocketParts {
  readonly place: FrontPlace
  readonly sessions: ToolboxSessions
  readonly ptys: Ptys
}

export interface Upgrades {
  take(request: IncomingMessage, socket: Duplex, head: Buffer): void
  /** Says goodbye to all, and waits a moment for them to go. */
  close(): Promise<void>
}

const closeMs = 500

type Serve = (socket: WebSocket, leaving: AbortSignal) => Promise<void>

const exitControl = 'X-Daytona-Pty-Exit-Control'
const environmentPrefix = 'X-Daytona-Pty-Envs~'

/** The WebSockets of the wire: the client's events, output that goes on, terminals. What is refused is answered before the upgrade. */
export function takeUpgrades(parts: SocketParts): Upgrades {
  const open = new Set<Duplex>()
  const closing = new AbortController()
  const server = new WebSocketServer({
    noServer: true,
    maxPayload: 1_048_576,
    clientTracking: false,
    // The one that says something about us; the environment is never said back.
    handleProtocols: (offered) => (offered.has(exitControl) ? exitControl : false),
  })
  const take = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    open.add(socket)
    const requestId = randomUUID()
    const gone = new AbortController()
    const leaving = AbortSignal.any([closing.signal, gone.signal])
    socket.once('close', () => {
      open.delete(socket)
      gone.abort()
    })
    find(parts, request, requestId, leaving).then(
      (serve) =>
        server.handleUpgrade(request, socket, head, (webSocket) => {
          webSocket.on('error', () => webSocket.terminate())
          closing.signal.addEventListener('abort', () => webSocket.close(1001, 'the daemon is ending'), {
            once: true,
          })
          serve(webSocket, leaving).catch(() => webSocket.close(1011))
        }),
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
  { place, sessions, ptys }: SocketParts,
  request: IncomingMessage,
  requestId: string,
  leaving: AbortSignal,
): Promise<Serve> {
  const url = new URL(request.url ?? '/', 'http://localhost')
  // Its key comes in its first message, as the client sends it.
  if (url.pathname === '/api/socket.io/') return (socket) => serveEvents(place, socket, leaving)
  const [, id, path] = /^\/toolbox\/([^/]+)\/process\/(.+)$/.exec(url.pathname) ?? []
  if (id === undefined || path === undefined)
    throw new SandboxError('not_found', 'There is no WebSocket here.')
  const caller = await callerOf(place, request.headers.authorization, requestId, 'exec')
  const sandbox = await sandboxOf(place, caller, decodeURIComponent(id))
  const logs = /^session\/([^/]+)\/command\/([^/]+)\/logs$/.exec(path)
  if (logs) {
    const address = { sessionId: decodeURIComponent(logs[1]!), commandId: decodeURIComponent(logs[2]!) }
    const found = await place.services.sessions.use.use(
      caller,
      sandbox.id,
      (used) => sessions.command(used, address),
      { wake: false },
    )
    return (socket, gone) => streamLogs(socket, found, gone)
  }
  if (path === 'pty/create-connect') {
    const wanted = checked(ptySchema, {
      ...Object.fromEntries(url.searchParams),
      envs: environmentOf(request),
    })
    await ptys.open(caller, sandbox.id, wanted)
    return ptys.connect(caller, sandbox.id, wanted.id, leaving)
  }
  const pty = /^pty\/([^/]+)\/connect$/.exec(path)
  if (pty) return ptys.connect(caller, sandbox.id, decodeURIComponent(pty[1]!), leaving)
  if (path.startsWith('interpreter/')) throw notSupported('An interpreter that keeps its state')
  throw new SandboxError('not_found', 'There is no WebSocket here.')
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
  const text = JSON.stringify(body)
  socket.end(
    `HTTP/1.1 ${status} ${body.code}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\nx-request-id: ${requestId}\r\nconnection: close\r\n\r\n${text}`,
  )
}
