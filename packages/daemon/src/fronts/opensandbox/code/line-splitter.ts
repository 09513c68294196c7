/** Longer ones are cut: a program that never ends its line must not fill our memory. */
const longest = 65_536

/** Text in lines without their ends, as execd sends it; an empty line is a line feed. */
export class Lines {
  readonly #decoder = new TextDecoder()
  #rest = ''

  push(bytes: Uint8Array): string[] {
    return this.#take(this.#decoder.decode(bytes, { stream: true }))
  }

  /** The rest after the end of the output. */
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
