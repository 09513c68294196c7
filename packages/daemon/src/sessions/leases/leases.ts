import { SandboxError } from '@sandkasten/sdk'
import type { EndAction } from '../../config/index.ts'
import type { Context, Session } from '../context.ts'

/** When a session ends if it is not used. */
export function idleEnd(session: Pick<Session, 'last_activity' | 'ttl_ms'>): number {
  return session.last_activity + session.ttl_ms
}

export function lifetimeEnd(session: Pick<Session, 'started_at' | 'lifetime_ms'>): number | undefined {
  return session.lifetime_ms === null ? undefined : session.started_at + session.lifetime_ms
}

/** When a stopped session is destroyed. */
export function stoppedEnd(
  session: Pick<Session, 'status' | 'status_at' | 'stopped_ttl_ms'>,
): number | undefined {
  const { status, status_at: since, stopped_ttl_ms: ms } = session
  return status === 'stopped' && ms !== null ? since + ms : undefined
}

/** The columns that decide when a session ends. */
export type Leased = Pick<
  Session,
  | 'id'
  | 'status'
  | 'status_at'
  | 'started_at'
  | 'last_activity'
  | 'ttl_ms'
  | 'on_idle'
  | 'lifetime_ms'
  | 'on_lifetime'
  | 'stopped_ttl_ms'
>

interface End {
  readonly at: number
  readonly action: EndAction
  readonly reason: string
}

/** All scheduled ends of a session. If several are due, the first gives the reason. */
export function endsOf(session: Leased): End[] {
  const seconds = (ms: number) => Math.round(ms / 1000)
  const kept = stoppedEnd(session)
  if (kept !== undefined)
    return [{ at: kept, action: 'destroy', reason: `stopped for ${seconds(session.stopped_ttl_ms!)} s` }]
  if (session.status !== 'running' && session.status !== 'paused') return []
  const lifetime = lifetimeEnd(session)
  const idle = { action: session.on_idle as EndAction, reason: `idle for ${seconds(session.ttl_ms)} s` }
  return [
    ...(lifetime === undefined
      ? []
      : [{ at: lifetime, action: session.on_lifetime as EndAction, reason: 'its lifetime is over' }]),
    { at: idleEnd(session), ...idle },
    // Do not pause a paused session again.
  ].filter(({ action }) => action !== 'pause' || session.status !== 'paused')
}

export function earliestEnd(session: Leased): number | undefined {
  const times = endsOf(session).map(({ at }) => at)
  return times.length === 0 ? undefined : Math.min(...times)
}

/** Smaller differences are ignored, because a busy process may lag as much. */
const jumpMs = 30_000

/**
 * Writes the last use of sessions once a second instead of at every request. After a crash, a session may therefore end
 * up to a second too early.
 */
export class Leases {
  readonly #context: Context
  /** Wall clock minus monotonic clock. Jumps when the clock is set, or after the machine slept. */
  #ahead: number | undefined
  #writing: Promise<void> = Promise.resolve()
  #minding: Promise<unknown> = Promise.resolve()

  constructor(context: Context) {
    this.#context = context
  }

  async write(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#write())
    return this.#writing
  }

  /**
   * Moves all leases with a jump of the wall clock, in both directions: setting the clock forward must not make sessions
   * idle. Slow corrections of the clock are ignored.
   */
  mindTheClock(now?: number, passed?: number): Promise<number> {
    // Calls take turns, because two calls that see the same jump would move the leases twice.
    const minding = this.#minding.then(() => this.#mind(now, passed))
    this.#minding = minding.catch(() => {})
    return minding
  }

  async #mind(now = Date.now(), passed = performance.now()): Promise<number> {
    const { live, store, instanceId, log } = this.#context
    const ahead = now - passed
    const jump = Math.round(ahead - (this.#ahead ?? ahead))
    if (Math.abs(jump) >= jumpMs) {
      await store.sessions.shiftLeases(instanceId, jump)
      live.shift(jump)
      log.warn({ ms: jump }, 'the clock jumped; leases moved with it')
    }
    this.#ahead = ahead
    return Math.abs(jump) >= jumpMs ? jump : 0
  }

  async #write(): Promise<void> {
    const { live, store, log } = this.#context
    const touched = live.takeTouched()
    for (const [index, { id, at, cwd }] of touched.entries()) {
      try {
        await store.sessions.update(id, undefined, {
          last_activity: at,
          cwd,
        })
      } catch (error) {
        // Keep them for the next write.
        for (const { id, cwd } of touched.slice(index)) live.touch(id, cwd)
        if (!SandboxError.is(error, 'unavailable', 'disk_full'))
          log.error({ err: error }, 'cannot write leases')
        return
      }
    }
  }
}
