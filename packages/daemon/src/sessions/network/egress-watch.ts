import { ReachedTargets } from '@sandkasten/sdk/provider'
import type { Context, DaemonProvider, Session } from '../context.ts'

export type EgressEvent =
  NonNullable<DaemonProvider['egressEvents']> extends (...args: never[]) => AsyncIterable<infer Event>
    ? Event
    : never

interface Followed {
  readonly sandboxId: string
  readonly stop: AbortController
  readonly reached: ReachedTargets
}

/**
 * Follows the events of all running sessions with a policy: for the metrics, and to learn policies from more events
 * than the gateway keeps.
 */
export class EgressWatch {
  readonly #context: Context
  readonly #followed = new Map<string, Followed>()
  readonly #startedAt = Date.now()

  constructor(context: Context) {
    this.#context = context
    context.metrics.onRead(() => this.#readConnections())
  }

  get size(): number {
    return this.#followed.size
  }

  /** Where the session connected to, as far as this process has followed. */
  reached(sessionId: string): ReachedTargets {
    return this.#followed.get(sessionId)?.reached.copy() ?? new ReachedTargets()
  }

  /** Begins to follow new sessions, and forgets those that ended. */
  async tend(): Promise<void> {
    const { store, instanceId, provider } = this.#context
    if (!provider.egressEvents) return
    const sessions = await store.sessions.withPolicy(instanceId)
    const running = new Map(sessions.map((session) => [session.id, session]))
    for (const [id, { sandboxId, stop }] of this.#followed) {
      if (running.get(id)?.sandbox_id === sandboxId) continue
      stop.abort()
      this.#followed.delete(id)
    }
    for (const session of running.values()) if (!this.#followed.has(session.id)) this.#follow(session)
  }

  close(): void {
    for (const { stop } of this.#followed.values()) stop.abort()
    this.#followed.clear()
  }

  #follow({ id, sandbox_id: sandboxId }: Pick<Session, 'id' | 'sandbox_id'>): void {
    if (sandboxId === null) return
    const followed = { sandboxId, stop: new AbortController(), reached: new ReachedTargets() }
    this.#followed.set(id, followed)
    void this.#read(followed).catch((error) => {
      if (followed.stop.signal.aborted) return
      this.#context.log.debug({ session: id, err: error }, 'cannot follow egress events; it is retried')
      if (this.#followed.get(id) === followed) this.#followed.delete(id)
    })
  }

  async #read({ sandboxId, stop, reached }: Followed): Promise<void> {
    const { provider } = this.#context
    // A gateway that an earlier process has started gets the present secrets of this sandbox.
    await provider.egressStats?.(sandboxId)
    for await (const event of provider.egressEvents!(sandboxId, { follow: true, signal: stop.signal })) {
      reached.add(event)
      if (event.at >= this.#startedAt) this.#count(event)
    }
  }

  #count({ verdict, bytesIn, bytesOut }: EgressEvent): void {
    const { metrics } = this.#context
    metrics.count('sandkasten_egress_decisions_total', { verdict })
    if (bytesIn > 0) metrics.count('sandkasten_egress_bytes_total', { direction: 'in' }, bytesIn)
    if (bytesOut > 0) metrics.count('sandkasten_egress_bytes_total', { direction: 'out' }, bytesOut)
  }

  async #readConnections(): Promise<void> {
    const { provider, metrics } = this.#context
    if (!provider.egressStats) return
    const all = [...this.#followed.values()]
    const stats = await Promise.allSettled(all.map(({ sandboxId }) => provider.egressStats!(sandboxId)))
    const open = stats.map((one) => (one.status === 'fulfilled' ? one.value.connections : 0))
    metrics.set(
      'sandkasten_egress_connections',
      {},
      open.reduce((a, b) => a + b, 0),
    )
  }
}
