/** Longer lines are split, so that a program without line feeds cannot fill the memory. */
const longest = 65_536

/** Splits text into lines without their ends, as execd sends them. An empty line is sent as a line feed. */
export class Lines {
  readonly #decoder = new TextDecoder()
  #rest = ''

  push(bytes: Uint8Array): string[] {
    return this.#take(this.#decoder.decode(bytes, { stream: true }))
  }

  /** Returns the last line at the end of the output. */
  end(): string[] {
    const lines = this.#take(this.#decoder.decode())
    const last = this.#rest.replace(/\r$/, '')
    this.#rest = ''
    return last === '' ? lines : [...lines, last]
  }

  #take(text: string): string[] {
    const parts = (this.#rest + text).split('\n')
    this.#rest = parts.pop()!
    const lines = parts.map((line) => line.replace(/\r$/, '') || '\n')
    while (this.#rest.length >= longest) {
      lines.push(this.#rest.slice(0, longest))
      this.#rest = this.#rest.slice(longest)
    }
    return lines
  }
}
