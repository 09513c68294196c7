import { SandboxError } from '@sandkasten/sdk'

/**
 * Limits work for unauthenticated requests per second. One request may overdraw it; the next ones are refused until it
 * recovers.
 */
export class Budget {
  readonly #perSecond: number
  readonly #now: () => number
  #left: number
  #at: number

  constructor(perSecond: number, now = () => performance.now()) {
    this.#perSecond = perSecond
    this.#now = now
    this.#left = perSecond
    this.#at = now()
  }

  /** Throws `rate_limited` when the budget is used up. */
  check(): void {
    const now = this.#now()
    const earned = ((now - this.#at) / 1000) * this.#perSecond
    this.#left = Math.min(this.#perSecond, this.#left + earned)
    this.#at = now
    if (this.#left > 0) return
    throw new SandboxError('rate_limited', 'Too many invalid file signatures.', {
      details: { retryAfterMs: (-this.#left / this.#perSecond) * 1000 + 1 },
      hint: 'Name the sandbox with the header E2b-Sandbox-Id, or use the host <port>-<id>.<domain>.',
    })
  }

  spend(cost: number): void {
    this.#left -= cost
  }
}
