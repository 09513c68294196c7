import type { Capabilities, Part } from './capabilities.ts'
import type { BytesSource, CallOptions, Environment, ProcessSignal } from './common.ts'

/** How a command ended. A non-zero `exitCode` is a result, not an error. */
export interface CommandResult {
  /** The program's exit code. For a program killed by a signal: 128 + the signal's number, as in a shell. */
  exitCode: number
  /**
   * UTF-8 text. Truncated output has its head and tail around a line that states the number of missing bytes.
   * With `output: 'merged'`, `stdout` has both streams in their true order, and `stderr` is empty.
   */
  stdout: string
  stderr: string
  /** The signal that killed the program, if any. */
  signal?: string
  /** The command was killed because its `timeoutMs` passed. */
  timedOut: boolean
  /** Part of the output is missing from `stdout` or `stderr`. */
  truncated: boolean
  /** The command was killed for exceeding its memory limit. Set only if the provider reports it. */
  oom?: boolean
  durationMs: number
}

interface CommandOptions extends CallOptions {
  /** The program: a name looked up on PATH, or a path. For a shell line, use `cmd: 'sh', args: ['-c', line]`. */
  cmd: string
  /** Passed unchanged: no joining, splitting or expansion. */
  args?: readonly string[]
  /** Added to the sandbox's environment. Variables that are `undefined` are ignored. */
  env?: Environment
  /** Relative to the sandbox's `workdir`. Default: the `workdir`. */
  cwd?: string
  /** After this time the command and all its descendants are killed, and the result has `timedOut: true`. */
  timeoutMs?: number
  /**
   * `separate` (the default): stdout and stderr are two pipes. The order between them is the order of arrival, which
   * is exact only on providers with the ability `orderedOutput`.
   * `merged` (ability `mergedOutput`): both are one pipe, as with `2>&1` in a shell. All output is `stdout`, in the
   * order in which the program wrote it.
   */
  output?: 'separate' | 'merged'
  /** Called with output as it arrives. A character is never split between calls. */
  onStdout?: (text: string) => void
  onStderr?: (text: string) => void
}

export interface RunCommandOptions extends CommandOptions {
  /**
   * Kills the command and all its descendants. The call then rejects with `aborted`; `details.stdout` and
   * `details.stderr` of the error have the output so far, at most 64 KiB each.
   */
  signal?: AbortSignal
  /** Input, followed by end-of-file. Default: end-of-file immediately. */
  stdin?: BytesSource
  /** The maximum size of each stream in the result. Default 4 MiB. */
  maxOutputBytes?: number
  /** Limits the memory that several results use together. */
  outputBudget?: OutputBudget
  detached?: false
}

/**
 * Memory shared by several results. If it is used up, a result keeps less than `maxOutputBytes` and sets `truncated`.
 * The first 64 KiB of each stream are always kept and not counted.
 */
export interface OutputBudget {
  /** Reserves this many bytes. Returns false, and reserves nothing, if there is no room. */
  take(bytes: number): boolean
  /** Called for all output, whether kept or dropped. A returned promise is awaited before more output is read. */
  pace?(bytes: number): Promise<void> | undefined
}

export interface DetachedCommandOptions extends SpawnOptions {
  /**
   * Starts the program and returns its process handle immediately. The program outlives the call, the handle and this
   * process.
   */
  detached: true
}

/** With `onStdout` or `onStderr`, a listener that throws kills the program, and `wait` rejects with its error. */
export interface SpawnOptions extends CommandOptions {
  /**
   * Cancels the start. Later it kills the program and all its descendants, also a detached one, as long as this
   * process runs. `wait` then returns a result with `signal: 'SIGKILL'`.
   */
  signal?: AbortSignal
  /**
   * `pipe` keeps stdin open for `writeStdin` (ability `stdin`). Content is sent, followed by end-of-file. Default:
   * end-of-file.
   */
  stdin?: BytesSource | 'pipe'
  /** The program outlives this process. Always the case for remote providers. */
  detached?: boolean
  /** Makes the call idempotent: a second `spawn` with this id returns the first process. */
  execId?: string
  /** The amount of output kept for later readers. Default 8 MiB. */
  outputBufferBytes?: number
}

/** Output and exit of a process, numbered from 1 without gaps. The `exit` event is the last one. */
export type ProcessEvent = StdoutEvent | StderrEvent | ExitEvent

export type OutputEvent = StdoutEvent | StderrEvent

export interface StdoutEvent {
  readonly seq: number
  readonly type: 'stdout'
  readonly data: Uint8Array
}

export interface StderrEvent {
  readonly seq: number
  readonly type: 'stderr'
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
  /** Set once the process has ended. */
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
   * Resume after this event number. Default 0: from the beginning.
   * If that part of the history was dropped, the iteration throws `gone`; `details.oldest` is the first number still
   * kept.
   */
  after?: number
}

export interface WaitExitOptions extends CallOptions {
  /** The maximum wait. When it passes, `wait` rejects with `timeout` and the process keeps running. */
  timeoutMs?: number
}

/** An `aborted` or `timeout` error of `wait` has the output so far in `details`, as the error of `runCommand`. */
export interface WaitOptions extends WaitExitOptions {
  maxOutputBytes?: number
  collect?: true
}

export interface ProcessCore {
  /** Unique within the sandbox. */
  readonly execId: string
  /** As numbered in the sandbox; undefined if the provider does not report it. */
  readonly pid?: number
  /**
   * All output and the exit, live and replayable, for any number of readers. A slow reader slows the program and
   * loses nothing.
   * An iteration that ends without an `exit` event was interrupted.
   */
  output(options?: OutputOptions): AsyncIterable<ProcessEvent>
  /**
   * One stream, as bytes. While one stream is read, up to 8 MiB of the other are kept, also if it was never opened.
   * Beyond that the program waits until the other one is read or cancelled, so cancel a stream that you do not need.
   * If nothing opens it for 30 seconds, the read fails with `timeout`, and the program goes on.
   */
  stdout(options?: CallOptions): ReadableStream<Uint8Array>
  stderr(options?: CallOptions): ReadableStream<Uint8Array>
  /** Waits for the exit and returns the output as `runCommand` does. */
  wait(options?: WaitOptions): Promise<CommandResult>
  /** Waits for the exit without collecting output. */
  wait(options: WaitExitOptions & { collect: false }): Promise<ProcessExit>
  /** Signals the program and all its descendants. Returns false if it had already ended. Default SIGTERM. */
  kill(signal?: ProcessSignal, options?: CallOptions): Promise<boolean>
  status(options?: CallOptions): Promise<ProcessStatus>
}

export interface ProcessStdin {
  /** Resolves when the program can accept more input. */
  writeStdin(data: string | Uint8Array, options?: CallOptions): Promise<void>
  /** Sends end-of-file. */
  closeStdin(options?: CallOptions): Promise<void>
}

export type ProcessHandle<C extends Capabilities = Capabilities> = ProcessCore & Part<C, 'stdin', 'process'>
