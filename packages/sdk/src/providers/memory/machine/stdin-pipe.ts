import { SandboxError } from '../../../errors.ts'
import { concat, encode } from '../../../shared/output/bytes.ts'

const roomBytes = 64 * 1024

/** A program's stdin. Data waits here until the program reads it; a full pipe makes the writer wait. */
export class Pipe implements AsyncIterable<Uint8Array> {
  readonly #chunks: Uint8Array[] = []
  readonly #waiting = new Set<() => void>()
  #bytes = 0
  #ended = false
  #broken = false

  /** Resolves when there is room for more. Rejects with `stdin_closed` after the program has ended or the pipe was closed. */
  async write(data: string | Uint8Array): Promise<void> {
    this.#check()
    const bytes = encode(data).slice()
    if (bytes.byteLength === 0) return
    this.#chunks.push(bytes)
    this.#bytes += bytes.byteLength
    this.#wake()
    while (this.#bytes > roomBytes) {
      await this.#change()
      if (this.#broken) throw closed()
    }
  }

  /** Signals end-of-file after the written data. */
  end(): void {
    this.#ended = true
    this.#wake()
  }

  /** The reader is gone: rejects waiting writers. */
  break(): void {
    this.#broken = true
    this.#wake()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      const chunk = this.#chunks.shift()
      if (chunk) {
        this.#bytes -= chunk.byteLength
        this.#wake()
        yield chunk
      } else if (this.#ended || this.#broken) return
      else await this.#change()
    }
  }

  async text(): Promise<string> {
    const chunks: Uint8Array[] = []
    for await (const chunk of this) chunks.push(chunk)
    return concat(chunks).toString('utf8')
  }

  #check(): void {
    if (this.#ended || this.#broken) throw closed()
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#waiting.add(resolve))
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve()
    this.#waiting.clear()
  }
}

function closed(): SandboxError {
  return new SandboxError('stdin_closed', 'The program’s stdin is closed.', { provider: 'memory' })
}
