import { Duplex } from 'node:stream'
import { SandboxError } from '../../../errors.ts'
import type { AgentStream } from '../guest/agent.ts'

/** Sessions are few: one on which nothing is asked for that long is given back, and opened again when something is. */
const IDLE_MS = 60_000

/** What is left of an answer as plain bytes both ways. Reads only what is asked for, so that a slow reader slows the host. */
export class Bridge extends Duplex {
  readonly #stream: AgentStream
  readonly #idleMs: number
  #ending: NodeJS.Timeout | undefined

  constructor(stream: AgentStream, idleMs = IDLE_MS) {
    super({ allowHalfOpen: true })
    this.#stream = stream
    this.#idleMs = idleMs
  }

  /** As sockets do it: whether it keeps this process alive. */
  ref(): void {
    clearTimeout(this.#ending)
    this.#stream.idle(false)
  }

  unref(): void {
    clearTimeout(this.#ending)
    this.#ending = setTimeout(() => this.destroy(), this.#idleMs).unref()
    this.#stream.idle(true)
  }

  override _read(): void {
    this.#stream.chunk().then(
      async (chunk) => {
        if (chunk) return void this.push(chunk)
        const problem = await this.#stream.problem()
        // The other side has ended it; or it was the connection, and that is why.
        if (SandboxError.is(problem, 'connection_lost')) this.destroy(problem)
        else this.push(null)
      },
      (error: Error) => this.destroy(error),
    )
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#stream.write(chunk).then(() => done(), done)
  }

  override _writev(
    chunks: { chunk: Buffer; encoding: BufferEncoding }[],
    done: (error?: Error | null) => void,
  ): void {
    this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), 'utf8', done)
  }

  override _final(done: () => void): void {
    this.#stream.endInput()
    done()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearTimeout(this.#ending)
    this.#stream.close()
    done(error)
  }
}
