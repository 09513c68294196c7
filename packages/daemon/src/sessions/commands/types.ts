import type { CommandResult, ProcessEvent, ProcessSignal, ShellResult } from '@sandkasten/sdk'
import type { ExecRow } from '../../store/index.ts'
import type { ResultAccount } from './result-memory.ts'

/** A command that carries an id: it outlives the request that started it, and this process. */
export interface Tracked {
  readonly row: ExecRow
  /** Live and replayable; `after` goes on. Throws `gone`. */
  output(after: number, signal: AbortSignal): AsyncIterable<ProcessEvent>
  /** The row with its result, or as lost. Never rejects. */
  readonly done: Promise<ExecRow>
  kill(signal: ProcessSignal): Promise<boolean>
  write?(data: Uint8Array): Promise<void>
  closeStdin?(): Promise<void>
}

export interface TrackOptions {
  /** Lets go of the command, which runs on. */
  readonly signal: AbortSignal
  /** Pays for the output that is kept in memory. */
  readonly account: ResultAccount
  readonly maxResultBytes: number
  /** Writes the end down. `defect` is why it is not known. Never rejects. */
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
  timeoutMs?: number
  /** Sent, then end-of-file; `pipe` keeps it open. */
  stdin?: Uint8Array | 'pipe'
  detached: boolean
  maxOutputBytes?: number
  outputBufferBytes?: number
}

export type CommandRequest = ShellRequest | RunRequest
