/** Runs work of one key in the order of the calls. Work of different keys is independent. */
export class Lanes {
  readonly #last = new Map<string, Promise<unknown>>()

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key)
    const result = (async () => {
      await before?.catch(() => {})
      return work()
    })()
    this.#last.set(key, result)
    try {
      return await result
    } finally {
      if (this.#last.get(key) === result) this.#last.delete(key)
    }
  }
}
