/** How long a holder may be silent before its lease is taken over. Holders beat three times as often. */
export const silentMs = 30_000

/** Observations kept. Beyond that, the oldest ones are dropped, and their time starts anew. */
const mostSeen = 10_000

/**
 * Tells from beats whether a holder still works. Uses the steady clock of this process alone: a clock that jumps, here
 * or there, neither ends nor prolongs a lease.
 */
export class BeatWatch {
  readonly #seen = new Map<string, { beat: string; since: number }>()
  readonly #now: () => number

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Whether the beat of `key` has not changed for `silentMs`, as seen by this watch. */
  isSilent(key: string, beat: string): boolean {
    const seen = this.#seen.get(key)
    if (seen?.beat === beat) return this.#now() - seen.since > silentMs
    this.#seen.delete(key)
    this.#seen.set(key, { beat, since: this.#now() })
    if (this.#seen.size > mostSeen) this.#seen.delete(this.#seen.keys().next().value!)
    return false
  }

  forget(key: string): void {
    this.#seen.delete(key)
  }
}
