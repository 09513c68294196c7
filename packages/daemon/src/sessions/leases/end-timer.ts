import type { Leased } from './scheduled-ends.ts'
import { earliestEnd } from './scheduled-ends.ts'

/** The minimum time between two passes of the reaper. */
const minWaitMs = 200
/** The maximum delay: far below the limit of timers (2^31 ms), and short enough to notice a changed clock. */
const maxWaitMs = 60_000

/**
 * One timer for all sessions. It fires when the first session may be due; the reaper then checks, and sets the timer for
 * the next one. A longer lease needs no call: the timer fires at the old time, and the reaper finds nothing due.
 */
export class EndTimer {
  #at = Number.POSITIVE_INFINITY
  #timer: NodeJS.Timeout | undefined
  #onDue: (() => void) | undefined

  /** Calls `onDue` at each end, until the returned function is called. */
  start(onDue: () => void): () => void {
    this.#onDue = onDue
    this.#arm()
    return () => {
      this.#onDue = undefined
      clearTimeout(this.#timer)
    }
  }

  /** Call it after each change of a session's status or leases. */
  note(session: Leased): void {
    const end = earliestEnd(session)
    if (end !== undefined) this.at(end)
  }

  /** Fires at this time or earlier. */
  at(time: number): void {
    if (time >= this.#at) return
    this.#at = time
    this.#arm()
  }

  /** Resets the timer. The caller then checks all sessions and sets the next time. */
  clear(): void {
    this.#at = Number.POSITIVE_INFINITY
    clearTimeout(this.#timer)
  }

  #arm(): void {
    clearTimeout(this.#timer)
    if (!this.#onDue || this.#at === Number.POSITIVE_INFINITY) return
    const waitMs = Math.min(Math.max(this.#at - Date.now(), minWaitMs), maxWaitMs)
    this.#timer = setTimeout(() => {
      this.#at = Number.POSITIVE_INFINITY
      this.#onDue?.()
    }, waitMs).unref()
  }
}
