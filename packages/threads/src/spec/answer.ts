import type { ChatFile } from './chat.ts'

/** The answer to one message of a user, complete at each moment. Texts are those of an agent: hostile. */
export interface Answer {
  /** The id of the turn. It stays the same after a restart. */
  readonly id: string
  readonly threadId: string
  readonly state: AnswerState
  readonly isFinal: boolean
  readonly blocks: readonly Block[]
  /** Why it failed, with a hint of what the user can do. */
  readonly error?: { readonly message: string; readonly hint?: string }
  readonly footer?: Footer
}

export type AnswerState = 'queued' | 'preparing' | 'working' | 'done' | 'failed' | 'aborted'

export type Block =
  | { readonly type: 'text'; readonly id: string; readonly text: string }
  | {
      readonly type: 'tool'
      readonly id: string
      readonly tool: string
      readonly status: 'running' | 'completed' | 'error'
      /** One line: the command, the path, the pattern. */
      readonly title: string
      readonly durationMs?: number
    }
  /** A step that is no work of the agent: "creating the sandbox", "starting opencode". */
  | { readonly type: 'step'; readonly id: string; readonly text: string; readonly isDone: boolean }
  | { readonly type: 'diff'; readonly id: string; readonly patch: string }
  | { readonly type: 'file'; readonly id: string; readonly file: ChatFile }

export interface Footer {
  readonly sandbox: string
  readonly provider: string
  readonly status: string
  readonly model?: string
  readonly costUsd?: number
  readonly durationMs: number
}
