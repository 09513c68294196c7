import { concat } from '../output/bytes.ts'

/** The chunk size of a program's input: the vendor buffers each chunk completely. */
export const inputBytes = 1024 * 1024

/** Reads a source a little ahead, so that data that arrives during a request goes out with the next one. */
export class Coalesced {
  readonly #iterator: AsyncIterator<Uint8Array>
  #waiting: Uint8Array[] = []
  #bytes = 0
  #over = false
  #failure: { error: unknown } | undefined
  #wake: () => void = () => {}
  #more: () => void = () => {}

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#iterator = source[Symbol.asyncIterator]()
    void this.#read()
  }

  async next(): Promise<Uint8Array | undefined> {
    while (this.#waiting.length === 0) {
      if (this.#failure) throw this.#failure.error
      if (this.#over) return undefined
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    const piece = concat(this.#waiting)
    this.#waiting = []
    this.#bytes = 0
    this.#more()
    return piece
  }

  /** All of it, if it is short and there by now; undefined otherwise. Take it, or go on with \`next\`. */
  async whole(mostBytes: number): Promise<Uint8Array | undefined> {
    // Lets a source that has everything deliver it.
    for (let turn = 0; turn < 10 && !this.#over; turn += 1)
      await new Promise<void>((resolve) => setTimeout(resolve))
    if (!this.#over || this.#failure || this.#bytes > mostBytes) return undefined
    return concat(this.#waiting)
  }

  release(): void {
    this.#over = true
    this.#more()
    void Promise.resolve(this.#iterator.return?.()).catch(() => {})
  }

  async #read(): Promise<void> {
    try {
      while (!this.#over) {
        const { done, value } = await this.#iterator.next()
        if (done) break
        this.#waiting.push(value)
        this.#bytes += value.byteLength
        this.#wake()
        if (this.#bytes >= inputBytes && !this.#over)
          await new Promise<void>((resolve) => {
            this.#more = resolve
          })
      }
    } catch (error) {
      this.#failure = { error }
    }
    this.#over = true
    this.#wake()
  }
}
