import type { Answer, Chat, Notice, Question } from '@sandkasten/threads'
import { printable } from './printable.ts'
import { AnswerPrinter, type PrinterOutput } from './printer.ts'

export interface TerminalChatOptions extends PrinterOutput {
  readonly threadId: string
  readonly onQuestion: (question: Question) => void
  readonly onSettled: (question: Question) => void
  readonly onFinal: (answer: Answer) => void
}

/** A terminal as a chat with one thread. Its posts cannot be edited, so answers are printed as a stream. */
export class TerminalChat implements Chat {
  readonly name = 'terminal'
  readonly #options: TerminalChatOptions
  readonly #printers = new Map<string, AnswerPrinter>()
  readonly #queued = new Set<string>()

  constructor(options: TerminalChatOptions) {
    this.#options = options
  }

  async show(answer: Answer): Promise<void> {
    if (answer.threadId !== this.#options.threadId) return
    if (answer.state === 'queued') {
      if (!this.#queued.has(answer.id)) this.#options.note('queued: the agent is at work. /abort ends it.')
      this.#queued.add(answer.id)
      return
    }
    const printer = this.#printers.get(answer.id) ?? new AnswerPrinter(this.#options)
    this.#printers.set(answer.id, printer)
    printer.print(answer)
    if (!answer.isFinal) return
    this.#printers.delete(answer.id)
    this.#queued.delete(answer.id)
    this.#options.onFinal(answer)
  }

  async ask(question: Question): Promise<void> {
    if (question.threadId === this.#options.threadId) this.#options.onQuestion(question)
  }

  async settle(question: Question): Promise<void> {
    this.#options.onSettled(question)
  }

  async notify({ threadId, text, files = [] }: Notice): Promise<void> {
    if (threadId !== this.#options.threadId) return
    if (text !== '') this.#options.note(printable(text))
    for (const { name, bytes } of files) this.#options.note(`file: ${this.#options.keep(name, bytes)}`)
  }

  async rename(): Promise<void> {}

  async archive(): Promise<void> {}
}
