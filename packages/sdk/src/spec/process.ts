import type { AllCapabilities, Capabilities, Parts } from './capabilities.ts'
import type { BytesSource, CallOptions, ProcessSignal } from './common.ts'

/** How a command ended. A non-zero `exitCode` is a result, not an error. */
export interface CommandResult {
  /** The program's own exit code; for one that was ended by a signal 128 + its number, as a shell reports it. */
  exitCode: number
  /** UTF-8 text. Where output was left out, its first and last parts around a line that says how much. */
  stdout: string
  stderr: string
  /** The signal that ended the program, if one did. */
  signal?: string
  /** The command was killed because its own `timeoutMs` had passed. */
  timedOut: boolean
  /** Part of the output was left out of `stdout` or `stderr`. */
  truncated: boolean
  /** The command was killed for exceeding its memory limit; only where the provider knows. */
  oom?: boolean
  durationMs: number
}

interface CommandOptions extends CallOptions {
  /** The program: a name looked up on PATH, or a path. Never a shell line; for one, use `cmd: 'sh', args: ['-c', line]`. */
  cmd: string
  /** Passed as they are; nothing is joined, split or expanded. */
  args?: readonly string[]
  /** Added to the sandbox's own environment. */
  env?: Readonly<Record<string, string>>
  /** Relative to the sandbox's `workdir`, which is the default. */
  cwd?: string
  /** After this time the command and everything it started is killed, and the result says `timedOut`. */
  timeoutMs?: number
}

export interface RunCommandOptions extends CommandOptions {
  /** Input, followed by end-of-file. Without it the program sees end-of-file at once. */
  stdin?: BytesSource
  /** Called with output as it arrives, text intact across chunk borders. */
  onStdout?: (text: string) => void
  onStderr?: (text: string) => void
  /** How much of each stream the result keeps. Default 4 MiB. */
  maxOutputBytes?: number
  /** Limits the memory that several results use together. */
  outputBudget?: OutputBudget
  detached?: false
}

/**
 * Memory that several results share. A result that finds no room in it keeps less than `maxOutputBytes` and says
 * `truncated`. The first 64 KiB of each stream are always kept and not counted.
 */
export interface OutputBudget {
  /** Takes this many bytes. False: there is no room, and nothing was taken. */
  take(bytes: number): boolean
  /** Told of all output as it is read, kept or not. What it returns is awaited before more is read. */
  pace?(bytes: number): Promise<void> | undefined
}

export interface DetachedCommandOptions extends CommandOptions {
  /** Start it and return at once with its process handle: for servers. It outlives this call, handle and process. */
  detached: true
  stdin?: BytesSource | 'pipe'
  execId?: string
  outputBufferBytes?: number
}

export interface SpawnOptions extends CommandOptions {
  /** `pipe` keeps stdin open for `writeStdin` (ability `stdin`). Content is sent, then closed. Default: end-of-file. */
  stdin?: BytesSource | 'pipe'
  /** Outlive this process. Providers on other machines always do. */
  detached?: boolean
  /** An id of your choice makes retries safe: a second `spawn` with the same id returns the first process. */
  execId?: string
  /** How much output is kept for readers that come later. Default 8 MiB. */
  outputBufferBytes?: number
}

/** Output and end of a process, numbered without gaps from 1. The `exit` event is the last one. */
export type ProcessEvent = OutputEvent | ExitEvent

export interface OutputEvent {
  readonly seq: number
  readonly type: 'stdout' | 'stderr'
  readonly data: Uint8Array
}

export interface ExitEvent extends ProcessExit {
  readonly seq: number
  readonly type: 'exit'
}

export interface ProcessExit {
  readonly exitCode: number
  readonly signal?: string
  readonly timedOut: boolean
  readonly oom?: boolean
  readonly durationMs: number
}

export interface ProcessStatus {
  readonly running: boolean
  /** How it ended, once it has. */
  readonly exit?: ProcessExit
}

export interface ProcessInfo extends ProcessStatus {
  readonly execId: string
  readonly cmd?: string
  readonly args?: readonly string[]
  readonly startedAt?: Date
}

export interface OutputOptions extends CallOptions {
  /**
   * Go on after this event number (0, the default: from the beginning). If that part of the history has been
   * dropped the iteration throws `gone`, whose `details.oldest` is the first number that is still there.
   */
  after?: number
}

export interface WaitOptions extends CallOptions {
  /** How long to wait; the process goes on when this passes, and `wait` rejects with `timeout`. */
  timeoutMs?: number
  maxOutputBytes?: number
}

export interface ProcessCore {
  /** The id of the command, unique in its sandbox. */
  readonly execId: string
  /** As the sandbox numbers it; undefined where the provider does not tell. */
  readonly pid?: number
  /**
   * All output and the end, live and replayable, any number of times and readers. A reader that is slow slows
   * the program down; it loses nothing. An iteration that ends without an `exit` event was cut off.
   */
  output(options?: OutputOptions): AsyncIterable<ProcessEvent>
  /** One stream, as bytes. */
  stdout(options?: CallOptions): ReadableStream<Uint8Array>
  stderr(options?: CallOptions): ReadableStream<Uint8Array>
  /** Waits for the end and gives output as `runCommand` does. */
  wait(options?: WaitOptions): Promise<CommandResult>
  /** Signals the program and everything it started. False when it had already ended. Default SIGTERM. */
  kill(signal?: ProcessSignal, options?: CallOptions): Promise<boolean>
  status(options?: CallOptions): Promise<ProcessStatus>
}

export interface ProcessStdin {
  /** Resolves when the program's side has room for more. */
  writeStdin(data: string | Uint8Array, options?: CallOptions): Promise<void>
  /** End-of-file. */
  closeStdin(options?: CallOptions): Promise<void>
}

export type ProcessHandle<C extends Capabilities = AllCapabilities> = ProcessCore & Parts<C, 'process'>
