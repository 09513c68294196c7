import type { Answer } from './answer.ts'

/**
 * One chat system: Discord, or a terminal. The engine calls it; it never calls back into the engine from these methods.
 * All methods are repeated after a crash with the same ids, and must not show the same thing twice: see `Posts`.
 * A method that throws `not_found` tells that the thread is gone; after another error it is called again.
 */
export interface Chat {
  readonly name: string
  /**
   * Shows the present state of an answer in its thread. A later state replaces an earlier one, and states between may be
   * left out. The state that `isFinal` marks is completely visible when the promise resolves.
   */
  show(answer: Answer): Promise<void>
  /** Asks the users of the thread. The chat hands their reply to `Threads.reply`. */
  ask(question: Question): Promise<void>
  /** A question was answered, or ended without an answer: its buttons no longer work. */
  settle(question: Question, outcome: string): Promise<void>
  /** One message that belongs to no answer, such as "The sandbox was started again". `key` is unique in its thread. */
  notify(notice: Notice): Promise<void>
  rename(threadId: string, title: string): Promise<void>
  archive(threadId: string): Promise<void>
}

export interface Question {
  readonly id: string
  readonly threadId: string
  readonly kind: 'permission' | 'question'
  /** Text of an agent or a repository: hostile. */
  readonly text: string
  readonly choices: readonly Choice[]
  readonly isMultiple: boolean
  readonly allowsText: boolean
}

export interface Choice {
  readonly value: string
  readonly label: string
  readonly description?: string
}

export interface Notice {
  readonly key: string
  readonly threadId: string
  readonly level: 'info' | 'warning' | 'error'
  readonly text: string
  readonly files?: readonly ChatFile[]
}

export interface ChatFile {
  readonly name: string
  readonly bytes: Uint8Array
}

/** Where a chat keeps which of its posts show what. It survives a restart of the process. */
export interface Posts {
  /** The posts of an answer, a question or a notice, in their order. */
  list(ownerId: string): Promise<readonly SavedPost[]>
  /** Before a post is sent. Returns its nonce, which is the same each time. */
  reserve(ownerId: string, index: number): Promise<{ nonce: string; postId?: string }>
  /** After it was sent. */
  sent(ownerId: string, index: number, postId: string): Promise<void>
  /** After it was deleted in the chat. */
  removed(ownerId: string, index: number): Promise<void>
}

export interface SavedPost {
  readonly index: number
  readonly nonce: string
  readonly postId?: string
}
