import { Duplex } from 'node:stream'
import { SandboxError } from '../../../errors.ts'
import type { AgentStream } from '../guest/agent.ts'

/** SSH sessions are scarce: an idle one is closed after this time, and reopened on use. */
const IDLE_MS = 60_000

/** A response of the agent as a byte stream in both directions. It reads on demand, so a slow reader slows the host. */
export class Bridge extends Duplex {
  readonly #stream: AgentStream
  readonly #idleMs: number
  #ending: NodeJS.Timeout | undefined

  constructor(stream: AgentStream, idleMs = IDLE_MS) {
    super({ allowHalfOpen: true })
    this.#stream = stream
    this.#idleMs = idleMs
  }

  /** Like a socket: whether it keeps this process alive. */
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
        // The runner ended the stream, or the connection was lost.
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
    this.#stream.endOfInput()
    done()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearTimeout(this.#ending)
    this.#stream.close()
    done(error)
  }
}
