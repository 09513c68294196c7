import { SmallProcess } from '../../../small-process.ts'

/**
 * Starts shims through `runner launcher`. Each isolator has one. It starts on first use, and again if it has died. It
 * keeps one shim ready for the next sandbox.
 */
export class Launcher {
  readonly #command: readonly [string, ...string[]]
  #process: SmallProcess | undefined

  constructor(command: readonly [string, ...string[]]) {
    this.#command = command
  }

  /** Starts the launcher if it does not run. It prepares a shim at once and writes errors to the file `log`. */
  warm(setup: () => object, log: string): void {
    if (this.#process?.alive) return
    const [program, ...args] = this.#command
    this.#process = new SmallProcess(program, args, { first: JSON.stringify(setup()), log })
  }

  /** The first line from the shim. Empty if the shim ended without one. */
  async start(task: object): Promise<string> {
    if (!this.#process) throw new Error('the launcher is not running')
    return this.#process.ask(JSON.stringify(task))
  }

  /** Resolves when the launcher and its prepared shim have ended. Sandboxes keep running. */
  async close(): Promise<void> {
    const process = this.#process
    this.#process = undefined
    await process?.close()
  }
}
