import type { Duplex } from 'node:stream'
import type { RunnerClient } from '@sandkasten/runner-client'
import { SandboxError } from '@sandkasten/sdk'

/** Below the runner's own limit of streams for a connection. */
const mostOpen = 240
const dialMs = 10_000
const idleMs = 30_000

/**
 * Byte streams to ports of one sandbox. They use a separate connection to the runner, so that port traffic cannot use
 * up the streams that commands need. The connection closes after some idle time.
 */
export class PortDialer {
  readonly #connect: () => Promise<RunnerClient>
  #client: Promise<RunnerClient> | undefined
  #open = 0
  #idle: NodeJS.Timeout | undefined

  constructor(connect: () => Promise<RunnerClient>) {
    this.#connect = connect
  }

  /** Rejects with `unavailable` when nothing listens on the port. */
  async dial(port: number): Promise<Duplex> {
    if (this.#open >= mostOpen)
      throw new SandboxError('rate_limited', `The sandbox has ${mostOpen} open connections to its ports.`, {
        hint: 'Close some of them.',
      })
    this.#enter()
    try {
      const stream = await (await this.#connected()).dial(port, { answerTimeoutMs: dialMs })
      stream.once('close', () => this.#leave())
      return stream
    } catch (error) {
      this.#leave()
      throw error
    }
  }

  async close(): Promise<void> {
    clearTimeout(this.#idle)
    const client = this.#client
    this.#client = undefined
    await client?.then(
      (client) => client.close(),
      () => {},
    )
  }

  #connected(): Promise<RunnerClient> {
    if (this.#client) return this.#client
    const client = this.#connect()
    const forget = () => {
      if (this.#client === client) this.#client = undefined
    }
    client.then(({ connection }) => connection.closed.then(forget), forget)
    this.#client = client
    return client
  }

  #enter(): void {
    this.#open += 1
    clearTimeout(this.#idle)
  }

  #leave(): void {
    this.#open -= 1
    if (this.#open === 0) this.#idle = setTimeout(() => void this.close(), idleMs).unref()
  }
}
