import { SmallProcess } from '../../../small-process.ts'

/**
 * Starts shims through `runner launcher`. One for each isolator, started when it is first needed; if it dies, the next start makes a new one. It keeps one
 * shim ready for a sandbox that nobody has asked for yet.
 */
export class Launcher {
  readonly #command: readonly [string, ...string[]]
  #process: SmallProcess | undefined

  constructor(command: readonly [string, ...string[]]) {
    this.#command = command
  }

  /** Makes sure that there is one, which begins to prepare at once. What it says of defects goes to the file `log`. */
  warm(setup: () => object, log: string): void {
    if (this.#process?.alive) return
    const [program, ...args] = this.#command
    this.#process = new SmallProcess(program, args, { first: JSON.stringify(setup()), log })
  }

  /** The first line that the shim says; empty when it ended without one. */
  async start(task: object): Promise<string> {
    if (!this.#process) throw new Error('there is no launcher')
    return this.#process.ask(JSON.stringify(task))
  }

  /** Resolves when it has gone, with what it had prepared. Sandboxes go on. */
  async close(): Promise<void> {
    const process = this.#process
    this.#process = undefined
    await process?.close()
  }
}
