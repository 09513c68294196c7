import { SandboxError } from '@sandkasten/sdk'
import { abortedError, onAbort } from '@sandkasten/sdk/provider'

/** Queues of callers in this process, one for each key. A caller that gives up leaves its queue. */
export class Turns {
  /** The callers that wait, in order. A key is present while one caller has its turn. */
  readonly #waiting = new Map<string, Array<() => void>>()

  /** Whether a caller would have to wait. */
  isTaken(key: string): boolean {
    return this.#waiting.has(key)
  }

  /** Waits for the turn. The returned function ends it. Throws `aborted`, and `conflict` after `waitMs`. */
  async take(key: string, { signal, waitMs = Infinity }: { signal?: AbortSignal; waitMs?: number } = {}) {
    const queue = this.#waiting.get(key)
    if (!queue) this.#waiting.set(key, [])
    else await this.#wait(queue, signal, waitMs)
    let ended = false
    return () => {
      if (ended) return
      ended = true
      const next = this.#waiting.get(key)?.shift()
      if (next) next()
      else this.#waiting.delete(key)
    }
  }

  #wait(queue: Array<() => void>, signal: AbortSignal | undefined, waitMs: number): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const settle = (work: () => void) => () => {
        clearTimeout(timer)
        stopListening()
        work()
      }
      const mine = settle(resolve)
      const giveUp = (error: () => SandboxError) =>
        settle(() => {
          queue.splice(queue.indexOf(mine), 1)
          reject(error())
        })
      const tooLong = giveUp(() => new SandboxError('conflict', 'The wait took too long.'))
      // Longer timers would fire at once.
      const timer = waitMs < 2 ** 31 ? setTimeout(tooLong, waitMs) : undefined
      let stopListening = () => {}
      queue.push(mine)
      stopListening = onAbort(
        signal,
        giveUp(() => abortedError(signal!)),
      )
    })
  }
}
