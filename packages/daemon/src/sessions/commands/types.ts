import type { CommandResult, ProcessEvent, ProcessSignal, ShellResult } from '@sandkasten/sdk'
import type { ExecRow } from '../../store/index.ts'
import type { ResultAccount } from './result-memory.ts'

/** A command with an id. It outlives the request that started it, and this process. */
export type Command = LiveCommand | StoredCommand

interface CommandBase {
  readonly row: ExecRow
  /** The events after number `after`. Throws `gone` when they were dropped. */
  output(after: number, signal: AbortSignal): AsyncIterable<ProcessEvent>
}

/** A command that this process follows to its end. */
export interface LiveCommand extends CommandBase {
  readonly state: 'live'
  /** The final row: with its result, or as lost. Never rejects. */
  readonly done: Promise<ExecRow>
  kill(signal: ProcessSignal): Promise<boolean>
  write?(data: Uint8Array): Promise<void>
  closeStdin?(): Promise<void>
}

/** A command that has ended, or whose sandbox cannot be reached now. Only its row is available. */
export interface StoredCommand extends CommandBase {
  readonly state: 'stored'
}

export interface TrackOptions {
  /** Stops following the command, which keeps running. */
  readonly signal: AbortSignal
  /** Accounts for the output that is kept in memory. */
  readonly account: ResultAccount
  readonly maxResultBytes: number
  /** Writes the final row. `defect` is the unexpected error that lost the result. Never rejects. */
  readonly save: (changes: Partial<ExecRow>, defect?: unknown) => Promise<ExecRow>
}

export type ExecResult = ({ kind: 'run' } & CommandResult) | ({ kind: 'exec' } & ShellResult)

export interface ShellRequest {
  kind: 'exec'
  command: string
  shell: string
  timeoutMs: number
  maxOutputBytes?: number
}

export interface RunRequest {
  kind: 'run'
  cmd: string
  args: readonly string[]
  env?: Readonly<Record<string, string>>
  cwd?: string
  output?: 'separate' | 'merged'
  timeoutMs?: number
  /** Bytes are sent with end-of-file; `pipe` keeps stdin open. */
  stdin?: Uint8Array | 'pipe'
  detached: boolean
  maxOutputBytes?: number
  outputBufferBytes?: number
}

export type CommandRequest = ShellRequest | RunRequest
