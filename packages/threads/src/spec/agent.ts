import type { CallOptions } from '@sandkasten/sdk'
import type { Block } from './answer.ts'
import type { Choice } from './chat.ts'

/** An agent at work for one thread: opencode inside the sandbox, or at home with tools of the sandbox only. */
export interface ThreadAgent extends AsyncDisposable {
  readonly mode: AgentMode
  /** The session of the agent. Saved with the thread, and given back to open the agent again. */
  readonly sessionId: string
  /** Inside: in the sandbox. At home: on this machine. */
  readonly directory: string
  /** Hands over a message. Resolves when the agent has accepted it. The same id twice is one message. */
  prompt(message: AgentMessage, options?: CallOptions): Promise<void>
  /** Whether the agent’s own history has the message. After a crash, a message that it has is not sent again. */
  has(messageId: string, options?: CallOptions): Promise<boolean>
  /**
   * Complete states of the answer, from the agent’s own history: the first one has all that is there already, also
   * after a restart. Ends after a state with `isFinal`. Throws `interrupted` or `unavailable` if the agent is gone.
   */
  answer(messageId: string, options?: CallOptions): AsyncIterable<AgentAnswer>
  abort(options?: CallOptions): Promise<void>
  reply(questionId: string, reply: AgentReply, options?: CallOptions): Promise<void>
  models(options?: CallOptions): Promise<readonly AgentModel[]>
}

export type AgentMode = 'inside' | 'home'

export interface AgentMessage {
  /** Made by `newMessageId()`; a later message has a greater id. */
  readonly id: string
  readonly text: string
  /** Files that were put into the sandbox, as absolute paths there. */
  readonly files: readonly string[]
  readonly model?: string
}

export interface AgentAnswer {
  readonly state: 'working' | 'done' | 'failed' | 'aborted'
  readonly isFinal: boolean
  readonly blocks: readonly Block[]
  /** Questions that wait for a reply. */
  readonly questions: readonly AgentQuestion[]
  readonly error?: string
  readonly model?: string
  readonly costUsd?: number
  /** The title that the agent gave its session. */
  readonly title?: string
}

export interface AgentQuestion {
  readonly id: string
  readonly kind: 'permission' | 'question'
  readonly text: string
  readonly choices: readonly Choice[]
  readonly isMultiple: boolean
  readonly allowsText: boolean
}

export type AgentReply =
  | { readonly choices: readonly string[]; readonly text?: string }
  | { readonly rejected: true }

export interface AgentModel {
  readonly id: string
  readonly name: string
}
