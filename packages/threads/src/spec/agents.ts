import type { Hold, ScopedRegistry } from '@sandkasten/registry'
import type { CallOptions } from '@sandkasten/sdk'
import type { AgentMode, AgentReply, ThreadAgent } from './agent.ts'
import type { ChatFile, Choice } from './chat.ts'

/** Opens agents for threads. The room `agents` implements it. */
export interface AgentOpener {
  /** The id of a message, greater than all earlier ones. */
  newMessageId(): string
  open(place: AgentPlace, options?: OpenAgentOptions): Promise<ThreadAgent>
}

export interface OpenAgentOptions extends CallOptions {
  /** A step for people: `starting opencode`. */
  readonly onStep?: (text: string) => void
}

/** Where an agent works, and what is known about it from earlier. */
export interface AgentPlace {
  readonly threadId: string
  readonly title: string
  /** The running sandbox. The engine releases it after the agent is disposed of. */
  readonly hold: Hold
  /** The scope of the sandbox, for the password of its server. */
  readonly sandboxes: ScopedRegistry
  /** As the user wants it, or as it was before. Default: decided by the provider’s abilities. */
  readonly mode?: AgentMode
  /** Of the same thread, earlier. If the session is gone, the agent begins a new one. */
  readonly sessionId?: string
  readonly directory?: string
  /** Continue in a copy of this session: the thread is a fork. */
  readonly forkOf?: { readonly sessionId: string; readonly mode: AgentMode }
  readonly model?: string
  /** Other threads use the repository: work in a folder and on a branch of its own. */
  readonly isShared: boolean
  readonly services: ThreadServices
}

/** What an agent may ask of its thread, and nothing else. Each call has an id: the same id twice is one call. */
export interface ThreadServices {
  /** `note`: one line of the agent about the file. */
  sendFile(callId: string, file: ChatFile, options?: CallOptions & { readonly note?: string }): Promise<void>
  ask(callId: string, question: AskedQuestion, options?: CallOptions): Promise<AgentReply>
  setTitle(title: string): Promise<void>
  /** The text becomes a message of the thread at that time, and with `everyMs` again and again. */
  schedule(callId: string, message: ScheduledText): Promise<ScheduledMessage>
  listSchedules(): Promise<readonly ScheduledMessage[]>
  /** False: the thread has no scheduled message with this id. */
  cancelSchedule(id: string): Promise<boolean>
}

export interface ScheduledText {
  readonly at: Date
  readonly everyMs?: number
  readonly text: string
}

export interface ScheduledMessage extends ScheduledText {
  readonly id: string
}

export interface AskedQuestion {
  readonly text: string
  readonly choices: readonly Choice[]
  readonly isMultiple: boolean
  readonly allowsText: boolean
}
