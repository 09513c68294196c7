import { SandboxError } from '@sandkasten/sdk'
import type { Context } from '../context.ts'

/** Smaller differences are ignored, because a busy process may lag as much. */
const jumpMs = 30_000

/**
 * Writes the last use of sessions once a second instead of at every request. After a crash, a session may therefore end
 * up to a second too early.
 */
export class LeaseWriter {
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
