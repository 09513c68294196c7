import { SandboxError } from '../../errors.ts'
import { concat } from '../output/bytes.ts'

/** Reads lines and bytes from chunks that come from a sandbox. */
export class GuestReader {
  readonly #provider: string
  readonly #next: () => Promise<Uint8Array | undefined>
  #buffer: Uint8Array = new Uint8Array(0)

  /** `next` returns undefined at the end. */
  constructor(provider: string, next: () => Promise<Uint8Array | undefined>) {
    this.#provider = provider
    this.#next = next
  }

  /** Resolves when there is something to read, or when the response has ended. */
  async peek(): Promise<void> {
    if (this.#buffer.length === 0) await this.#more()
  }

  /** The next line; undefined at the end. Skips nothing: a line that is too long is an error. */
  async line(limit: number): Promise<string | undefined> {
    const parts: Uint8Array[] = []
    let length = 0
    for (;;) {
      const end = this.#buffer.indexOf(10)
      const part = this.#take(end === -1 ? this.#buffer.length : end + 1)
      parts.push(part)
      length += part.length
      if (end !== -1) return new TextDecoder().decode(concat(parts).subarray(0, length - 1))
      if (length > limit)
        throw new SandboxError('provider_error', 'A line of the sandbox’s response is too long.', {
          provider: this.#provider,
        })
      if (!(await this.#more())) return undefined
    }
  }

  /** Exactly this many bytes; undefined if the response ends before. */
  async bytes(count: number): Promise<Uint8Array | undefined> {
    const parts: Uint8Array[] = []
    for (let missing = count; ; ) {
      const part = this.#take(Math.min(missing, this.#buffer.length))
      parts.push(part)
      missing -= part.length
      if (missing === 0) return parts.length === 1 ? part : concat(parts)
      if (!(await this.#more())) return undefined
    }
  }

  /** The next bytes, as they come; undefined at the end. */
  async chunk(): Promise<Uint8Array | undefined> {
    if (this.#buffer.length === 0 && !(await this.#more())) return undefined
    return this.#take(this.#buffer.length)
  }

  async rest(maxBytes: number): Promise<Uint8Array> {
    const parts: Uint8Array[] = []
    let length = 0
    for (let part = await this.chunk(); part; part = await this.chunk()) {
      parts.push(part)
      length += part.length
      if (length > maxBytes)
        throw new SandboxError('too_large', 'The sandbox’s response is too long.', {
          provider: this.#provider,
        })
    }
    return concat(parts)
  }

  async #more(): Promise<boolean> {
    for (;;) {
      const next = await this.#next()
      if (next === undefined) return false
      if (next.length === 0) continue
      this.#buffer = next
      return true
    }
  }

  #take(count: number): Uint8Array {
    const taken = this.#buffer.subarray(0, count)
    this.#buffer = this.#buffer.subarray(count)
    return taken
  }
}
