import type { Answer } from '../spec/answer.ts'
import type { Chat } from '../spec/chat.ts'
import { untilShown } from './retry.ts'

/**
 * Shows the states of one answer. At most one call of the chat is in flight; while it is, only the newest state is kept.
 */
export class Display {
  readonly #chat: Pick<Chat, 'show'>
  readonly #options: { signal: AbortSignal; retryMs: number }
  #next: Answer | undefined
  #running: Promise<void> | undefined

  constructor(chat: Pick<Chat, 'show'>, options: { signal: AbortSignal; retryMs: number }) {
    this.#chat = chat
    this.#options = options
  }

  /** Returns at once. */
  set(answer: Answer): void {
    this.#next = answer
    this.#running ??= this.#run()
    this.#running.catch(() => {})
  }

  /** Resolves when this state, the last one, is completely visible. Rejects if the signal fires before. */
  async end(answer: Answer): Promise<void> {
    this.set(answer)
    await this.#running
  }

  async #run(): Promise<void> {
    try {
      while (this.#next !== undefined) {
        // A repeated call shows what is newest then.
        let shown: Answer | undefined
        const isThere = await untilShown(() => {
          shown = this.#next ?? shown
          this.#next = undefined
          return this.#chat.show(shown!)
        }, this.#options)
        if (!isThere) return
      }
    } finally {
      this.#running = undefined
    }
  }
}
