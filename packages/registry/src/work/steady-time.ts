import { uptime } from 'node:os'

/** What `SteadyTime` reads. Tests pass their own. */
export interface TimeSource {
  /** The machine's clock, which somebody may set. */
  now(): number
  /** Counts evenly, also while the machine sleeps. Its zero means nothing. */
  elapsed(): number
}

/**
 * The time of day for decisions. It follows the machine's clock, but not its jumps:
 *
 *     small differences      adjusted at once: clocks drift, and NTP corrects them
 *     a jump, either way     ignored for an hour: the time goes on evenly
 *     still there after it   adopted: the clock was wrong before, and is right now
 *
 * So a sandbox is not taken for idle because the clock jumped ahead by a day, and due work goes on if it was set back. A
 * machine that slept did not jump.
 */
export class SteadyTime {
  readonly #source: TimeSource
  #wall: number
  #elapsed: number
  /** Since when the machine's clock differs, by `elapsed`. */
  #differsSince: number | undefined

  constructor(source: TimeSource = machineTime) {
    this.#source = source
    this.#wall = source.now()
    this.#elapsed = source.elapsed()
  }

  /** Whole milliseconds. */
  readonly now = (): number => {
    const elapsed = this.#source.elapsed()
    const wall = this.#source.now()
    const steady = this.#wall + Math.max(0, elapsed - this.#elapsed)
    if (Math.abs(wall - steady) <= jumpMs) this.#differsSince = undefined
    else {
      this.#differsSince ??= elapsed
      if (elapsed - this.#differsSince < adoptMs) return Math.round(steady)
      this.#differsSince = undefined
    }
    this.#wall = wall
    this.#elapsed = elapsed
    return wall
  }
}

/** A larger difference is a jump. */
const jumpMs = 60_000
const adoptMs = 60 * 60_000

const startedAt = uptime() * 1000
const startedCount = performance.now()

const machineTime: TimeSource = {
  now: () => Date.now(),
  // `performance.now` stands still while a Linux machine sleeps; the uptime counts that, but is coarse.
  elapsed: () => {
    const count = performance.now() - startedCount
    const up = uptime() * 1000 - startedAt
    return up - count > 2000 ? up : count
  },
}
