import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import type { Core, TwinEvent } from '../core.ts'
import type { EventFaultRules } from '../faults/events.ts'
import { createConnection } from './connection.ts'
import { eventFor } from './recipients.ts'
import { dispatch, isOver, type Session } from './session.ts'

/** The gateway's side of the twin: connections, sessions, and the way of events to them. */
export interface Gateway {
  accept(request: IncomingMessage, socket: Duplex, head: Buffer): void
  publish(event: TwinEvent): void
  /** Closes the connections of all bots, or of one. Code 4000 lets clients resume. */
  drop(options?: { code?: number; botId?: string }): void
  /** Cuts connections without a closing handshake. */
  cut(botId?: string): void
  /** Forgets sessions, so that a resume is refused, and tells connected clients with op 9. */
  invalidateSessions(botId?: string): void
  /** Asks clients to reconnect with op 7. */
  requestReconnect(botId?: string): void
  /** While set, heartbeats are not acknowledged and no event is sent: the connection is a zombie. */
  setZombie(isZombie: boolean): void
  /** While false, new connections are refused. */
  setAccepting(isAccepting: boolean): void
  /** Bots with an open, ready session. */
  connected(): string[]
  close(): Promise<void>
}

/** State of the gateway that connections share. */
export interface GatewayState {
  readonly sessions: Map<string, Session>
  isZombie: boolean
}

export function createGateway(core: () => Core, eventFaults: EventFaultRules): Gateway {
  const server = new WebSocketServer({ noServer: true, maxPayload: 64 * 1024 })
  const state: GatewayState = { sessions: new Map(), isZombie: false }
  let isAccepting = true

  const deliver = (event: TwinEvent) => {
    for (const session of state.sessions.values()) {
      if (isOver(core(), session)) {
        state.sessions.delete(session.id)
        continue
      }
      const data = eventFor(core(), session, event)
      if (data) {
        eventFaults.send({ name: event.name, botId: session.bot.id }, () => {
          if (!state.sessions.has(session.id)) return
          const live = session.socket
          // A zombie connection swallows what is sent; the session still counts and keeps it.
          if (state.isZombie) session.socket = undefined
          dispatch(session, event.name, data, core().limits.resumeEvents)
          if (state.isZombie) session.socket = live
        })
      }
    }
  }

  const select = (botId?: string) =>
    [...state.sessions.values()].filter(({ bot }) => botId === undefined || bot.id === botId)

  const sockets = (botId?: string): WebSocket[] =>
    botId === undefined
      ? [...server.clients]
      : select(botId).flatMap(({ socket }) => (socket ? [socket] : []))

  return {
    accept(request, socket, head) {
      if (!isAccepting) return void socket.destroy()
      server.handleUpgrade(request, socket, head, (client) => {
        core().counters.record.gateway('connections')
        createConnection(core(), state, client)
      })
    },
    publish: deliver,
    drop({ code = 4000, botId } = {}) {
      for (const socket of sockets(botId)) socket.close(code, 'closed by the test')
    },
    cut(botId) {
      for (const socket of sockets(botId)) socket.terminate()
    },
    invalidateSessions(botId) {
      for (const session of select(botId)) {
        state.sessions.delete(session.id)
        session.socket?.send(JSON.stringify({ op: 9, d: false }))
      }
    },
    requestReconnect(botId) {
      for (const socket of sockets(botId)) socket.send(JSON.stringify({ op: 7, d: null }))
    },
    setZombie(isZombie) {
      state.isZombie = isZombie
    },
    setAccepting(value) {
      isAccepting = value
    },
    connected: () => [...new Set(select().flatMap(({ socket, bot }) => (socket ? [bot.id] : [])))],
    async close() {
      for (const socket of server.clients) socket.terminate()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}
