import type { Leased } from './leases.ts'
import { earliestEnd } from './leases.ts'

/** Two passes of the reaper are at least this far apart, however many sessions end. */
const minWaitMs = 200
/** Never longer: keeps the delay far below the limit of timers (2^31 ms), and finds a clock that was set. */
const maxWaitMs = 60_000

/**
 * One timer for all sessions: it fires when the first of them may be due. The reaper then decides, and sets the timer
 * for the next one. A lease that becomes longer needs no call: the timer fires at the old time, and nothing is due.
 */
export class EndTimer {
  #at = Number.POSITIVE_INFINITY
  #timer: NodeJS.Timeout | undefined
  #onDue: (() => void) | undefined

  /** Begins to call `onDue`. The function that it returns ends that. */
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

  /** Forgets the time; the caller is about to look at all sessions and to set the next one. */
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
