import { SandboxError } from '@sandkasten/sdk'
import type { Context, Session } from './context.ts'

/** When a session ends if nobody uses it, and when it ends in any case. */
export function idleEnd(session: Session): number {
  return session.last_activity + session.ttl_ms
}

export function lifetimeEnd(session: Session): number | undefined {
  return session.lifetime_ms === null ? undefined : session.started_at + session.lifetime_ms
}

/** When one that is stopped is not kept any longer. */
export function stoppedEnd(session: Session): number | undefined {
  const { status, status_at: since, stopped_ttl_ms: ms } = session
  return status === 'stopped' && ms !== null ? since + ms : undefined
}

/** Less than this no clock is said to jump: a process may be held up for as long. */
const jumpMs = 30_000

/**
 * Use is written down once a second, not at every request. A daemon that is killed forgets a second of it, and ends a
 * session by so much too soon.
 */
export class Leases {
  readonly #context: Context
  /** How far the machine's clock is ahead of the time that has passed; jumps when somebody sets it, or the machine slept. */
  #ahead: number | undefined
  #writing: Promise<void> = Promise.resolve()

  constructor(context: Context) {
    this.#context = context
  }

  async write(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#write())
    return this.#writing
  }

  /**
   * A clock that is set forward by an hour has not made anybody idle for an hour: leases move with it, in both directions. What is slower than a jump, such as
   * a clock that is slowly corrected, is let be.
   */
  async mindTheClock(now = Date.now(), passed = performance.now()): Promise<number> {
    const { live, store, instanceId, log } = this.#context
    const ahead = now - passed
    const jump = Math.round(ahead - (this.#ahead ?? ahead))
    if (Math.abs(jump) >= jumpMs) {
      await store.sessions.shiftLeases(instanceId, jump)
      live.shift(jump)
      log.warn({ ms: jump }, 'the clock jumped; leases were moved with it')
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
          ...(cwd === undefined ? {} : { cwd }),
        })
      } catch (error) {
        // Not lost: they are written the next time.
        for (const { id, cwd } of touched.slice(index)) live.touch(id, cwd)
        if (!SandboxError.is(error, 'unavailable', 'disk_full'))
          log.error({ err: error }, 'leases were not written')
        return
      }
    }
  }
}
