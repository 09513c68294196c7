import type { Answer, Block } from '@sandkasten/threads'
import { cut, oneLine } from '../../format.ts'
import { printable } from './printable.ts'

export interface PrinterOutput {
  /** The text of answers. */
  readonly answer: (text: string) => void
  /** Everything else, one line each. */
  readonly note: (line: string) => void
  /** Keeps a file that the agent shows. Returns where it is. */
  readonly keep: (name: string, bytes: Uint8Array) => string
}

/**
 * Prints the states of one answer as a stream. What was printed stays, so a block is printed up to its present end, and
 * the next one begins when it is complete.
 */
export class AnswerPrinter {
  readonly #output: PrinterOutput
  /** The first block that is not complete. */
  #at = 0
  /** What was printed of it. */
  #printed = ''
  readonly #steps = new Set<string>()
  #isInLine = false

  constructor(output: PrinterOutput) {
    this.#output = output
  }

  print({ blocks, isFinal, state, error, footer }: Answer): void {
    for (const block of blocks) if (block.type === 'step') this.#step(block)
    const rest = blocks.filter(({ type }) => type !== 'step')
    while (this.#at < rest.length) {
      const isComplete = this.#block(rest[this.#at]!, isFinal || this.#at < rest.length - 1)
      if (!isComplete) break
      this.#at += 1
      this.#printed = ''
    }
    if (!isFinal) return
    this.#endLine()
    if (error) this.#output.note(printable([error.message, error.hint].filter(Boolean).join(' ')))
    else if (state === 'aborted') this.#output.note('aborted.')
    if (!footer) return
    const { sandbox, provider, model, costUsd, durationMs } = footer
    const cost = costUsd === undefined ? undefined : `$${costUsd.toFixed(4)}`
    const parts = [`${sandbox} (${provider})`, model, cost, `${(durationMs / 1000).toFixed(1)} s`]
    this.#output.note(printable(parts.filter(Boolean).join(' · ')))
  }

  #step({ id, text }: Extract<Block, { type: 'step' }>): void {
    if (this.#steps.has(id)) return
    this.#steps.add(id)
    this.#output.note(`${oneLine(printable(text))}…`)
  }

  /** True: the block is complete. */
  #block(block: Block, isLast: boolean): boolean {
    if (block.type === 'text') return this.#text(block.text, isLast)
    if (block.type === 'tool' && block.status === 'running' && !isLast) return false
    this.#endLine()
    if (block.type === 'tool') {
      const mark = { completed: '✓', error: '✗', running: '…' }[block.status]
      const time = block.durationMs === undefined ? '' : ` (${(block.durationMs / 1000).toFixed(1)} s)`
      this.#output.note(`${mark} ${cut(oneLine(printable(`${block.tool} ${block.title}`)), 100)}${time}`)
    } else if (block.type === 'diff') this.#output.answer(`${printable(block.patch)}\n`)
    else if (block.type === 'file')
      this.#output.note(`file: ${this.#output.keep(block.file.name, block.file.bytes)}`)
    return true
  }

  #text(text: string, isComplete: boolean): boolean {
    const shown = printable(text)
    if (!shown.startsWith(this.#printed)) {
      // The agent has changed what it said.
      this.#endLine()
      this.#printed = ''
    }
    const more = shown.slice(this.#printed.length)
    if (more !== '') {
      this.#output.answer(more)
      this.#isInLine = !more.endsWith('\n')
      this.#printed = shown
    }
    if (isComplete) this.#endLine()
    return isComplete
  }

  #endLine(): void {
    if (this.#isInLine) this.#output.answer('\n')
    this.#isInLine = false
  }
}
