import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AuthInfo } from '@modelcontextprotocol/server'
import type { Seen } from '../calls/index.ts'

/** One HTTP request of an agent. */
export interface Exchange {
  readonly session: string
  readonly seen: Seen
  /** Aborts when the client closes the connection before it has its response. */
  readonly closed: AbortSignal
  /** Calls of this request that the client can cancel. */
  readonly ids: Set<string>
}

/**
 * Ties the requests of an agent together. The MCP handler keeps no sessions, so that it survives restarts; but protocol
 * versions before 2026 cancel a request with another request. An id that we give out, and accept from anybody who has
 * the token, is enough for that.
 */
export class Exchanges {
  readonly #seen = new Map<string, Seen>()
  readonly #calls = new Map<string, AbortController>()

  begin(request: IncomingMessage, response: ServerResponse, body: unknown): AuthInfo {
    const { method, params } = (body ?? {}) as { method?: unknown; params?: { requestId?: unknown } }
    if (method === 'initialize') response.setHeader('mcp-session-id', randomUUID())
    const session = String(request.headers['mcp-session-id'] ?? '').slice(0, 100)
    // Requests without a session may come from several clients, which number their requests alike.
    if (method === 'notifications/cancelled' && session !== '')
      this.#calls.get(keyOf(session, params?.requestId))?.abort()
    const closed = new AbortController()
    const exchange: Exchange = {
      session,
      seen: this.#seenBy(session),
      closed: closed.signal,
      ids: new Set(),
    }
    response.once('close', () => {
      if (!response.writableFinished) closed.abort()
      for (const key of exchange.ids) this.#calls.delete(key)
    })
    return { token: '', clientId: session, scopes: [], extra: { exchange } }
  }

  /** The signal of one call. */
  signalOf(exchange: Exchange, requestId: string | number): AbortSignal {
    const key = keyOf(exchange.session, requestId)
    const controller = new AbortController()
    this.#calls.set(key, controller)
    exchange.ids.add(key)
    return AbortSignal.any([controller.signal, exchange.closed])
  }

  #seenBy(session: string): Seen {
    const seen = this.#seen.get(session) ?? {}
    // The most recently used are at the end.
    this.#seen.delete(session)
    this.#seen.set(session, seen)
    for (const oldest of this.#seen.keys()) {
      if (this.#seen.size <= maxSessions) break
      this.#seen.delete(oldest)
    }
    return seen
  }
}

export function exchangeOf(authInfo: AuthInfo | undefined): Exchange {
  const exchange = authInfo?.extra?.exchange as Exchange | undefined
  if (!exchange) throw new Error('A request has no exchange.')
  return exchange
}

const maxSessions = 1_000

function keyOf(session: string, requestId: unknown): string {
  return JSON.stringify([session, requestId])
}
