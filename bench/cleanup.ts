/** Cleanup that always runs: after an exception, Ctrl-C or a closed terminal. In reverse order. */
export class Cleanup {
  readonly #steps: { name: string; undo: () => unknown }[] = []

  add(name: string, undo: () => unknown): void {
    this.#steps.push({ name, undo })
  }

  async run(): Promise<string[]> {
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
