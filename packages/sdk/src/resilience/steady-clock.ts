import type { Clock } from '../shared/clock.ts'

/**
 * The time of day, but never set back. A sandbox's end is a time of day, so that is what has to be compared; and
 * two things befall a clock meanwhile:
 *
 *     the machine slept      the wall clock leaps ahead, what counts milliseconds may stand still: believe the wall
 *     the clock was set back the wall says that there is more time than there is: believe the milliseconds
 *
 * So each look moves on by what the wall says, unless that is behind by more than a second. Being ahead only means to
 * put a sandbox's end off sooner than needed.
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
