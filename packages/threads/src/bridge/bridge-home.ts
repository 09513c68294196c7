import type { CallOptions } from '@sandkasten/sdk'
import type { ChatFile } from '../spec/chat.ts'

/**
 * What an agent may ask of its thread. All texts are those of an agent: hostile, and to be shown as the agent’s. A method
 * that throws a `SandboxError` refuses; the agent reads its message.
 */
export interface BridgeHome {
  /** Shows a file in the thread. */
  sendFile(threadId: string, file: ChatFile, note: string | undefined, options: CallOptions): Promise<void>
  /** Resolves with the reply of a user. The signal aborts when the agent waits no longer. */
  ask(threadId: string, question: BridgeQuestion, options: CallOptions): Promise<string>
  setTitle(threadId: string, title: string, options: CallOptions): Promise<void>
  /** `when`: a time, or an interval, in the words of the agent. Returns what was understood. */
  schedule(threadId: string, schedule: NewSchedule, options: CallOptions): Promise<BridgeSchedule>
  /** False: the thread has no schedule with this id. */
  cancelSchedule(threadId: string, scheduleId: string, options: CallOptions): Promise<boolean>
  listSchedules(threadId: string, options: CallOptions): Promise<readonly BridgeSchedule[]>
}

export interface BridgeQuestion {
  readonly text: string
  /** Empty: any text. */
  readonly choices: readonly string[]
}

export interface NewSchedule {
  readonly when: string
  /** Sent to the agent at that time, as a message. */
  readonly text: string
}

export interface BridgeSchedule {
  readonly id: string
  /** When it is due next, in words that an agent understands: an ISO date, or an interval. */
  readonly when: string
  readonly text: string
}
