import { onAbort, throwIfAborted } from '../shared/abort.ts'

/** How long a lost connection is tried again: a daemon that is started anew is back within this. */
const reconnectMs = 30_000

/** Waits longer from time to time, and for so long in all. */
export class ReconnectDelay {
  #waitMs = 50
  #since: number | undefined

  /** Something came: whatever is lost next is a new misfortune. */
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
