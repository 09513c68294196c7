import { SandboxError } from '../errors.ts'

/** For streams of a vendor's: ends one on which nothing has moved for too long. Only the vendor's side is timed, never the caller's. */
export class Silence {
  readonly #ms: number
  readonly #provider: string
  readonly #controller = new AbortController()
  #timer: ReturnType<typeof setTimeout> | undefined
  /** Fires when it is too long, or the caller has had enough. */
  readonly signal: AbortSignal

  constructor(ms: number, provider: string, caller: AbortSignal | undefined) {
    this.#ms = ms
    this.#provider = provider
    const own = this.#controller.signal
    this.signal = caller ? AbortSignal.any([caller, own]) : own
  }

  /** From now on it is the vendor's turn. */
  listen(): void {
    this.rest()
    this.#timer = setTimeout(() => this.#controller.abort(), this.#ms)
  }

  /** It is not. */
  rest(): void {
    clearTimeout(this.#timer)
  }

  /** What is sent: each piece is to be taken in time, and the answer is to come. */
  async *sending(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      this.listen()
      yield chunk
      this.rest()
    }
    this.listen()
  }

  /** What to throw for a failure: it is the silence, if that was too long. */
  blamed(error: unknown): unknown {
    if (!this.#controller.signal.aborted) return error
    return new SandboxError('timeout', `Nothing was heard of ${this.#provider} for ${this.#ms / 1000} s.`, {
      provider: this.#provider,
      cause: error,
      hint: 'Try again, or raise `requestTimeoutMs` of the provider.',
    })
  }
}
