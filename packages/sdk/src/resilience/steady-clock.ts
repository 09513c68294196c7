import type { Clock } from '../shared/calls/clock.ts'

/**
 * The time of day, never set back. A sandbox's end is a time of day, so that is what must be compared. Two things can
 * happen to a clock meanwhile:
 *
 *     the machine slept       the wall clock jumps ahead, monotonic time may stand still: use the wall clock
 *     the clock was set back  the wall clock is behind: use monotonic time
 *
 * So each reading advances by the wall clock, unless that is behind by more than a second. Being ahead only extends a
 * sandbox sooner than needed.
 */
export class SteadyClock {
  readonly #clock: Clock
  #wall: number
  #elapsed: number
  #now: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#wall = clock.now()
    this.#elapsed = this.#passed()
    this.#now = this.#wall
  }

  now(): number {
    const wall = this.#clock.now()
    const elapsed = this.#passed()
    const byWall = wall - this.#wall
    const byCount = elapsed - this.#elapsed
    this.#wall = wall
    this.#elapsed = elapsed
    this.#now += Math.max(0, byWall >= byCount - 1000 ? byWall : byCount)
    return this.#now
  }

  #passed(): number {
    return this.#clock.elapsed?.() ?? this.#clock.now()
  }
}
