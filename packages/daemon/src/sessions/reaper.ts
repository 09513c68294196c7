import { SandboxError } from '@sandkasten/sdk'
import type { EndAction } from '../config/index.ts'
import type { Commands } from './commands/commands.ts'
import type { Context, Session } from './context.ts'
import { idleEnd, lifetimeEnd, stoppedEnd } from './leases.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { StoreBudget } from './store-budget.ts'

/** Ends what is due. Never while somebody is at work in the session: he holds it, and so does a command that runs. */
export class Reaper {
  readonly #context: Context
  readonly #lifecycle: Lifecycle
  readonly #commands: Commands
  readonly #budget: StoreBudget

  constructor(context: Context, lifecycle: Lifecycle, commands: Commands, budget: StoreBudget) {
    this.#context = context
    this.#lifecycle = lifecycle
    this.#commands = commands
    this.#budget = budget
  }

  async run(now = Date.now()): Promise<number> {
    const { store, instanceId, log, config } = this.#context
    let ended = 0
    for (const session of await store.sessions.live(instanceId)) {
      const due = this.#due(session, now)
      if (!due || this.#working(session.id)) continue
      try {
        const still = async (fresh: Session) =>
          !this.#working(fresh.id) && this.#due(fresh, now) !== undefined
        if (await this.#lifecycle.end(session.id, due.action, due.reason, still)) ended += 1
      } catch (error) {
        if (!SandboxError.is(error, 'not_found'))
          log.warn({ session: session.id, err: error }, 'a session could not be ended')
      }
    }
    await store.sessions.prune(instanceId, now - config.keep_ended_seconds * 1000)
    await store.sessions.pruneBeyond(config.keep_ended_sessions)
    await this.#budget.enforce()
    return ended
  }

  #due(session: Session, now: number): { action: EndAction; reason: string } | undefined {
    const kept = stoppedEnd(session)
    if (kept !== undefined && kept <= now)
      return { action: 'destroy', reason: `stopped for ${Math.round(session.stopped_ttl_ms! / 1000)} s` }
    if (session.status !== 'running' && session.status !== 'paused') return undefined
    const end = lifetimeEnd(session)
    // What is to be paused, and is, has got what it was to get.
    const rests = (action: string) => action === 'pause' && session.status === 'paused'
    if (end !== undefined && end <= now && !rests(session.on_lifetime))
      return { action: session.on_lifetime as EndAction, reason: 'its lifetime is over' }
    const touched = this.#context.live.touched(session.id)
    const used = { ...session, last_activity: Math.max(session.last_activity, touched?.at ?? 0) }
    if (idleEnd(used) > now || rests(session.on_idle)) return undefined
    return { action: session.on_idle as EndAction, reason: `idle for ${Math.round(session.ttl_ms / 1000)} s` }
  }

  #working(id: string): boolean {
    return this.#context.live.holds(id) > 0 || this.#commands.isWorking(id)
  }
}
