import { type ProcessCore, type ProcessExit, SandboxError } from '@sandkasten/sdk'

const tailBytes = 8192

/** The output and the end of a server's process, followed until `close`. */
export class FollowedProcess {
  /** Resolves when the process ends; rejects when it cannot be followed any more, for example with its sandbox. */
  readonly ended: Promise<ProcessExit>
  /** Resolves when the output says that the server accepts connections. */
  readonly listening: Promise<void>
  readonly #stop = new AbortController()
  readonly #process: ProcessCore
  readonly #pattern: RegExp
  #tail = ''
  #say: () => void = () => {}

  constructor(process: ProcessCore, listening: RegExp) {
    this.#process = process
    this.#pattern = listening
    this.listening = new Promise((resolve) => {
      this.#say = resolve
    })
    this.ended = this.#follow()
    this.ended.catch(() => {})
  }

  /** The last output. */
  get tail(): string {
    return this.#tail.trim()
  }

  close(): void {
    this.#stop.abort()
  }

  async #follow(after = 0): Promise<ProcessExit> {
    const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() }
    const { signal } = this.#stop
    try {
      for await (const event of this.#process.output({ after, signal })) {
        if (event.type === 'exit') return event
        const text = decoders[event.type].decode(event.data, { stream: true })
        this.#tail = (this.#tail + text).slice(-tailBytes)
        if (this.#pattern.test(this.#tail)) this.#say()
      }
    } catch (error) {
      if (signal.aborted) return never
      const oldest = SandboxError.is(error, 'gone') ? Number(error.details.oldest) : Number.NaN
      if (oldest > after + 1) return this.#follow(oldest - 1)
      throw error
    }
    if (signal.aborted) return never
    throw new SandboxError('connection_lost', 'The output of the server ended before the server did.')
  }
}

const never = new Promise<ProcessExit>(() => {})
