import { connect as connectTcp } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import { type SandboxEndpoint, SandboxError } from '@sandkasten/sdk'
import { type Caller, includes } from '../keys/index.ts'
import type { Session, SessionService } from '../sessions/index.ts'
import type { PortRow } from '../store/index.ts'
import type { Target } from './addresses.ts'
import type { PortContext } from './ports.ts'
import { isTokenOf, type Links } from './signed-links.ts'

export interface Credentials {
  readonly tokens: readonly string[]
  /** The caller of the API key, if one was sent. */
  readonly caller?: Caller
}

export interface Visit {
  readonly session: Session
  readonly row: PortRow
  /** An anonymous visitor. Anonymous visits do not extend the lease. */
  readonly stranger: boolean
  /** The token that admitted the visitor, and its expiry. */
  readonly token?: string
  readonly expiresAt?: number
}

export interface ReachedPort {
  readonly port: number
  /** Headers of every request, such as tokens of the provider. */
  readonly headers: Readonly<Record<string, string>>
  /** Each call opens a new byte stream. */
  connect(): Promise<Duplex>
}

/** Admits visitors to open ports, and connects them to the sandbox. */
export class Visits {
  readonly #context: PortContext
  readonly #sessions: SessionService
  readonly #links: Links
  /** Ports of this daemon's own listeners. */
  readonly own = new Set<number>()

  constructor(context: PortContext, sessions: SessionService, links: Links) {
    this.#context = context
    this.#sessions = sessions
    this.#links = links
  }

  /** The same error for a missing session, a session of another project, a closed port and an invalid token. */
  async admit(target: Pick<Target, 'id' | 'port'>, given: Credentials): Promise<Visit> {
    const [session, row] = await Promise.all([
      this.#sessions.lookup(target.id),
      this.#context.store.ports.get(target.id, target.port),
    ])
    if (!session || !row || session.live === 0 || !this.#sessions.isHere(session)) throw nothingHere()
    for (const token of given.tokens) {
      const expiresAt = this.#links.verify(row, token)
      if (expiresAt !== undefined) return { session, row, stranger: false, token, expiresAt }
      if (row.visibility === 'token' && isTokenOf(row, token)) return { session, row, stranger: false, token }
    }
    const { caller } = given
    if (caller && caller.projectId === session.project_id && includes(caller.scopes, 'exec'))
      return { session, row, stranger: false }
    if (row.visibility === 'public') return { session, row, stranger: true }
    throw nothingHere()
  }

  /** Connects to the port. Starts a stopped session only if the port has `wake_on_visit`. */
  async reach({ session, row, stranger }: Visit, requestId: string): Promise<ReachedPort> {
    const caller: Caller = { projectId: session.project_id, keyId: 'preview', scopes: [], requestId }
    const { provider } = this.#context
    const { port } = row
    const used = await this.#sessions.use.take(caller, session.id, { wake: row.wake === 1 })
    try {
      if (!stranger) this.#sessions.touch(session.id)
      if (provider.dial) {
        const sandboxId = used.session.sandbox_id!
        return { port, headers: {}, connect: () => provider.dial!(sandboxId, port) }
      }
      const endpoint = await used.sandbox.getEndpoint(port)
      this.#refuseOwn(endpoint)
      return { port, headers: endpoint.headers, connect: () => connectTo(endpoint) }
    } finally {
      used.release()
    }
  }

  /** Traffic on an open connection is activity, like the first request. */
  touch({ session, stranger }: Visit): void {
    if (!stranger) this.#sessions.touch(session.id)
  }

  /** Refuses the daemon's own ports, which a preview could reach without isolation. */
  #refuseOwn({ url }: SandboxEndpoint): void {
    const { hostname, port } = new URL(url)
    if (!this.own.has(Number(port)) || !['127.0.0.1', 'localhost', '[::1]'].includes(hostname)) return
    throw new SandboxError('forbidden', 'This is a port of the daemon itself.', {
      hint: 'Use another port.',
    })
  }
}

function connectTo({ url }: SandboxEndpoint): Promise<Duplex> {
  const { protocol, hostname, port } = new URL(url)
  const host = hostname.replace(/^\[|\]$/g, '')
  const socket =
    protocol === 'https:'
      ? connectTls({ host, port: Number(port || 443), servername: host })
      : connectTcp({ host, port: Number(port || 80) })
  return new Promise((resolve, reject) => {
    socket.once(protocol === 'https:' ? 'secureConnect' : 'connect', () => resolve(socket))
    socket.once('error', reject)
  })
}

export function nothingHere(): SandboxError {
  return new SandboxError('not_found', 'There is nothing here that you may access.', {
    hint: 'Open the port with POST /v1/sessions/{id}/ports. Send a key of its project, its token, or use a link that has not expired.',
  })
}
