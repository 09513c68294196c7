import { type ProcessEvent, SandboxError } from '@sandkasten/sdk'
import { OutputLog } from '@sandkasten/sdk/provider'

/**
 * Passes a follower's events on to live readers, beginning with the first event. A slow reader slows the follower, which
 * slows the program. Older events come from the sandbox.
 */
export class SharedOutput {
  readonly #log: OutputLog
  readonly #cut = new AbortController()
  #relieved: Promise<void> | undefined
  #next = 1

  constructor() {
    let relieve = () => {}
    this.#log = new OutputLog({
      capacityBytes: 1024 * 1024,
      onPressure: (wait) => {
        if (!wait) return relieve()
        this.#relieved = new Promise((resolve) => {
          relieve = () => {
            this.#relieved = undefined
            resolve()
          }
        })
      },
    })
  }

  /** Resolves when there is room for more. */
  push(event: ProcessEvent): Promise<void> | undefined {
    // Events were dropped, so this copy is incomplete.
    if (event.seq !== this.#next) this.end()
    if (this.#cut.signal.aborted) return undefined
    this.#next += 1
    if (event.type === 'exit') {
      this.#log.end(event)
      return undefined
    }
    this.#log.push(event.type, event.data)
    return this.#relieved
  }

  /** No more events will come; readers continue with `rest`. */
  end(): void {
    this.#cut.abort()
  }

  async *read(
    after: number,
    signal: AbortSignal,
    rest: (after: number) => Promise<AsyncIterable<ProcessEvent>>,
  ): AsyncGenerator<ProcessEvent> {
    let last = after
    try {
      for await (const event of this.#log.read(after, AbortSignal.any([signal, this.#cut.signal]))) {
        last = event.seq
        yield event
      }
      return
    } catch (error) {
      if (signal.aborted || !SandboxError.is(error, 'gone', 'aborted')) throw error
    }
    yield* await rest(last)
  }
}
