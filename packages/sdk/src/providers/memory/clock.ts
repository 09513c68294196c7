import type { Clock } from '../../shared/clock.ts'

/**
 * A clock that moves only when `advance` is called. Timers fire in the order of their time, and in the order in
 * which they were set where that is equal; after each one, everything it sets off runs before the next.
 */
export class ManualClock implements Clock {
  #now: number
  #count = 0
  readonly #timers = new Map<number, { at: number; callback: () => void }>()

  constructor(startMs = 0) {
    this.#now = startMs
  }

  now(): number {
    return this.#now
  }

  /** How many timers wait: 0 when nothing is going to happen however far time moves. */
  get pending(): number {
    return this.#timers.size
  }

  after(ms: number, callback: () => void): () => void {
    this.#count += 1
    const id = this.#count
    this.#timers.set(id, { at: this.#now + Math.max(0, ms), callback })
    return () => this.#timers.delete(id)
  }

  /** Moves time and resolves when everything that was due, and what followed from it, has happened. */
  async advance(ms: number): Promise<void> {
    if (!(ms >= 0)) throw new RangeError(`ManualClock.advance(${ms}): time does not go backwards.`)
    const end = this.#now + ms
    await settle()
    for (let due = this.#next(end); due; due = this.#next(end)) {
      this.#timers.delete(due.id)
      this.#now = Math.max(this.#now, due.at)
      due.callback()
      await settle()
    }
    this.#now = end
  }

  #next(end: number): { id: number; at: number; callback: () => void } | undefined {
    let first: { id: number; at: number; callback: () => void } | undefined
    for (const [id, timer] of this.#timers) {
      if (timer.at <= end && (!first || timer.at < first.at)) first = { id, ...timer }
    }
    return first
  }
}

/** A turn of the event loop: every promise that can be settled is. */
function settle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0))
}
