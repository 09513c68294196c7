/** Work waits at most this long for acknowledgements of others. */
const mostWaitMs = 2000

/** Acknowledgements have 3 seconds, the work behind them has minutes. When many come at once, they go first. */
export class Acknowledgements {
  #pending = 0
  #waiting: Array<() => void> = []

  /** Acknowledges, then waits until no other acknowledgement is on its way. */
  async first(acknowledge: () => Promise<unknown>): Promise<void> {
    this.#pending += 1
    try {
      await acknowledge()
    } finally {
      this.#pending -= 1
      if (this.#pending === 0) for (const resolve of this.#waiting.splice(0)) resolve()
    }
    if (this.#pending === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, mostWaitMs)
    this.#waiting.push(resolve)
    await promise
    clearTimeout(timer)
  }
}
