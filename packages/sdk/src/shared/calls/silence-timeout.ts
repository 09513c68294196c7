import { SandboxError } from '../../errors.ts'

/** An idle timeout for a vendor's stream. Only the vendor's side is timed, never the caller's. */
export class Silence {
  readonly #ms: number
  readonly #provider: string
  readonly #controller = new AbortController()
  #timer: ReturnType<typeof setTimeout> | undefined
  /** Fires on the timeout or when the caller cancels. */
  readonly signal: AbortSignal

  constructor(ms: number, provider: string, caller: AbortSignal | undefined) {
    this.#ms = ms
    this.#provider = provider
    const own = this.#controller.signal
    this.signal = caller ? AbortSignal.any([caller, own]) : own
  }

  /** Starts the timer: the vendor has to respond. */
  listen(): void {
    this.rest()
    this.#timer = setTimeout(() => this.#controller.abort(), this.#ms)
  }

  rest(): void {
    clearTimeout(this.#timer)
  }

  /** Times an upload: the vendor must accept each chunk in time, and then respond. */
  async *sending(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      this.listen()
      yield chunk
      this.rest()
    }
    this.listen()
  }

  /** The error to throw for a failure: the timeout, if it caused the failure. */
  blamed(error: unknown): unknown {
    if (!this.#controller.signal.aborted) return error
    return new SandboxError('timeout', `${this.#provider} sent nothing for ${this.#ms / 1000} s.`, {
      provider: this.#provider,
      cause: error,
      hint: 'Try again, or raise `requestTimeoutMs` of the provider.',
    })
  }
}
