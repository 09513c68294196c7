/** What must be undone whatever happens: an exception, Ctrl-C, a closed terminal. Last made, first undone. */
export class Cleanup {
  readonly #steps: { name: string; undo: () => unknown }[] = []
  #running: Promise<string[]> | undefined

  /** From now on a signal cleans up before it ends the process. */
  onSignals(): void {
    for (const [signal, code] of Object.entries({ SIGINT: 130, SIGTERM: 143, SIGHUP: 129 })) {
      process.on(signal, () => {
        if (this.#running) return
        console.error(`\n${signal}: cleaning up …`)
        void this.run().then(() => process.exit(code))
      })
    }
  }

  add(name: string, undo: () => unknown): void {
    this.#steps.push({ name, undo })
  }

  /** Every step is tried. Returns what went wrong. */
  run(): Promise<string[]> {
    this.#running ??= this.#all()
    return this.#running
  }

  async #all(): Promise<string[]> {
    const problems: string[] = []
    for (let step = this.#steps.pop(); step; step = this.#steps.pop()) {
      try {
        await step.undo()
      } catch (error) {
        problems.push(`${step.name}: ${error instanceof Error ? error.message : String(error)}`)
      }
    }
    for (const problem of problems) console.error(`could not clean up ${problem}`)
    return problems
  }
}
