import { SandboxError } from '@sandkasten/sdk'
import type { EndAction } from '../../config/index.ts'
import type { Commands } from '../commands/commands.ts'
import type { Context } from '../context.ts'
import type { Lifecycle } from '../lifecycle.ts'
import type { StoreBudget } from '../limits/store-budget.ts'
import { endsOf, type Leased } from './scheduled-ends.ts'

/** How many sessions are ended concurrently. */
const atOnce = 8
/** When a due session is in use, it is checked again after this time. */
const heldMs = 500

/** Ends due sessions. Requests and running commands hold a session, and a held session does not end. */
export class Reaper {
  readonly #context: Context
  readonly #lifecycle: Lifecycle
  readonly #commands: Commands
  readonly #budget: StoreBudget
  readonly #ending = new Map<string, Promise<boolean>>()
  /** Ends that wait for one of the `atOnce` slots. */
  readonly #waiting: Array<() => void> = []
  #places = atOnce

  constructor(context: Context, lifecycle: Lifecycle, commands: Commands, budget: StoreBudget) {
    this.#context = context
    this.#lifecycle = lifecycle
    this.#commands = commands
    this.#budget = budget
  }

  /** Ends due sessions, waits for their ends, and prunes old rows. Returns the number of ended sessions. */
  async run(now = Date.now()): Promise<number> {
    const { store, instanceId, config } = this.#context
    await this.endDue(now)
    const ended = await Promise.all(this.#ending.values())
    await store.sessions.prune(instanceId, now - config.keep_ended_seconds * 1000)
    await store.sessions.pruneBeyond(config.keep_ended_sessions)
    await this.#budget.enforce()
    return ended.filter(Boolean).length
  }

  /** Starts to end due sessions and sets the timer for the next one. Does not wait, so a slow end does not delay others. */
  async endDue(now = Date.now()): Promise<void> {
    const { store, instanceId, ends } = this.#context
    // Clear before reading, to keep ends that other calls note meanwhile.
    ends.clear()
    try {
      for (const session of await store.sessions.leases(instanceId)) {
        const due = this.#due(session, now)
        if (!due) ends.note(this.#used(session))
        else if (this.#working(session.id)) ends.at(Date.now() + heldMs)
        else void this.#end(session.id, due, now)
      }
    } catch (error) {
      ends.at(Date.now() + 1000)
      throw error
    }
  }

  /** Waits for ends in progress. */
  async settled(): Promise<void> {
    await Promise.all(this.#ending.values())
  }

  #end(id: string, due: Due, now: number): Promise<boolean> {
    const known = this.#ending.get(id)
    if (known) return known
    const ending = this.#endOne(id, due, now).finally(() => this.#ending.delete(id))
    this.#ending.set(id, ending)
    return ending
  }

  async #endOne(id: string, due: Due, now: number): Promise<boolean> {
    const still = async (fresh: Leased) => !this.#working(id) && this.#due(fresh, now) !== undefined
    if (this.#places === 0) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    else this.#places -= 1
    try {
      const ended = await this.#lifecycle.end(id, due.action, due.reason, still)
      // The session is in use again, or its leases have changed. The next pass finds its new end.
      if (!ended) this.#context.ends.at(Date.now() + heldMs)
      return ended
    } catch (error) {
      if (!SandboxError.is(error, 'not_found'))
        this.#context.log.warn({ session: id, err: error }, 'cannot end a session that is due')
      return false
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#places += 1
    }
  }

  #due(session: Leased, now: number): Due | undefined {
    return endsOf(this.#used(session)).find(({ at }) => at <= now)
  }

  /** Adds the newest use, which is not in the store yet. */
  #used<T extends Leased>(session: T): T {
    const touched = this.#context.live.touched(session.id)
    return { ...session, last_activity: Math.max(session.last_activity, touched?.at ?? 0) }
  }

  #working(id: string): boolean {
    return this.#context.live.holds(id) > 0 || this.#commands.isWorking(id)
  }
}

interface Due {
  readonly action: EndAction
  readonly reason: string
}
