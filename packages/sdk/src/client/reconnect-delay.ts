import { onAbort, throwIfAborted } from '../shared/calls/abort.ts'

/** How long to retry a lost connection. A daemon restarts within this time. */
const reconnectMs = 30_000

/** Delays between reconnects: they grow, and end after `reconnectMs` in total. */
export class ReconnectDelay {
  #waitMs = 50
  #since: number | undefined

  /** Resets the delays after data has arrived. */
  restore(): void {
    this.#waitMs = 50
    this.#since = undefined
  }

  over(): boolean {
    this.#since ??= Date.now()
    return Date.now() - this.#since > reconnectMs
  }

  async wait(signal?: AbortSignal): Promise<void> {
    const ms = this.#waitMs
    this.#waitMs = Math.min(ms * 2, 1000)
    await new Promise<void>((resolve) => {
      const timer = setTimeout(done, ms)
      const forget = onAbort(signal, done)
      function done() {
        clearTimeout(timer)
        forget()
        resolve()
      }
    })
    throwIfAborted(signal)
  }
}
