import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Discord allows a bot 50 requests in a second. In any second, this allows the burst and the rate: 36. The rest is for
 * requests that were delayed on their way and arrive together.
 */
const perSecond = 30
const burst = 6

/**
 * Spreads requests. discord.js counts in seconds of its own, which do not begin when Discord’s do; with many threads
 * at work a whole second of requests would be refused.
 */
export class RequestPace {
  /** When the next request is due, if requests came evenly. */
  #due = 0
  #last: Promise<void> = Promise.resolve()

  /** One after the other, so that timers which fire late do not release many requests at once. */
  turn(): Promise<void> {
    this.#last = this.#last.then(async () => {
      for (let wait = this.wait(performance.now()); wait > 0; wait = this.wait(performance.now()))
        await sleep(wait)
      this.take(performance.now())
    })
    return this.#last
  }

  /** How long a request has to wait. */
  wait(now: number): number {
    return Math.max(0, this.#due - (burst - 1) * (1000 / perSecond) - now)
  }

  take(now: number): void {
    this.#due = Math.max(this.#due, now) + 1000 / perSecond
  }
}
