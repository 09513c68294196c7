import type { Clock } from '../../../shared/calls/clock.ts'

/**
 * A clock that moves only when `advance` is called. Timers fire by time, and equal ones in the order in which they were set.
 * All effects of a timer run before the next one fires.
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

  get pending(): number {
    return this.#timers.size
  }

  after(ms: number, callback: () => void): () => void {
    this.#count += 1
    const id = this.#count
    this.#timers.set(id, { at: this.#now + Math.max(0, ms), callback })
    return () => this.#timers.delete(id)
  }

  /** Moves time, and resolves when all due timers and their effects have run. */
  async advance(ms: number): Promise<void> {
    if (!(ms >= 0)) throw new RangeError(`ManualClock.advance(${ms}): a clock cannot move backwards.`)
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

/** One turn of the event loop, which settles all promises that can settle. */
function settle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0))
}
