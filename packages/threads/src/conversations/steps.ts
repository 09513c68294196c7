import type { ProgressStep } from '@sandkasten/registry'
import type { Block } from '../spec/answer.ts'
import { cut } from '../store/index.ts'

const mostSteps = 30

/** The steps before the agent works, as blocks of the answer. A new step ends the one before. */
export class Steps {
  readonly #onChange: () => void
  #blocks: Array<Extract<Block, { type: 'step' }>> = []

  constructor(onChange: () => void) {
    this.#onChange = onChange
  }

  get blocks(): readonly Block[] {
    return this.#blocks
  }

  begin(text: string): void {
    const line = cut(text, 300)
    if (this.#blocks.at(-1)?.text === line) return
    this.#end()
    const id = `step-${this.#blocks.length + 1}`
    if (this.#blocks.length < mostSteps) this.#blocks.push({ type: 'step', id, text: line, isDone: false })
    this.#onChange()
  }

  /** For `onProgress` of the registry. */
  readonly progress = ({ step, message }: ProgressStep): void => {
    if (step !== 'done') this.begin(message)
  }

  end(): void {
    this.#end()
    this.#onChange()
  }

  #end(): void {
    this.#blocks = this.#blocks.map((block) => ({ ...block, isDone: true }))
  }
}
