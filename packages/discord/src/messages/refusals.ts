const explainEveryMs = 60_000
const mostThreads = 1000

/** Which refusals are explained in words. With one reply for each of many messages, a member could fill a thread. */
export class Refusals {
  readonly #explained = new Map<string, number>()

  /** False: this thread had the same words a moment ago. */
  explains(threadId: string, words: string, now = Date.now()): boolean {
    const key = `${threadId} ${words}`
    if (now - (this.#explained.get(key) ?? Number.NEGATIVE_INFINITY) < explainEveryMs) return false
    this.#explained.delete(key)
    this.#explained.set(key, now)
    if (this.#explained.size > mostThreads) this.#explained.delete(this.#explained.keys().next().value!)
    return true
  }
}
