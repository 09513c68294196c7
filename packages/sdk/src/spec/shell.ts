import type { CallOptions, Environment, ProcessSignal } from './common.ts'
import type { OutputBudget, OutputOptions, ProcessEvent, ProcessStatus } from './process.ts'

export interface OpenShellOptions extends CallOptions {
  /** Returns the open shell with this name, or opens it. Without a name, every call opens a new shell. */
  name?: string
  cwd?: string
  env?: Environment
  /**
   * Whether the shell first reads the profile of the sandbox's user, like `bash -l`. Default: true on the engine and
   * the daemon, false elsewhere.
   * A provider without this feature rejects `true` with `unsupported`. Has no effect on a shell that is already open.
   */
  login?: boolean
}

/**
 * A shell that keeps its state between commands. Commands run one after the other: a second `exec` waits for the
 * first.
 * Their stdin is at end-of-file.
 */
export interface SandboxShell {
  readonly name: string
  /** The shell's working directory, as last reported. */
  readonly cwd: string
  exec(command: string, options?: ShellExecOptions): Promise<ShellResult>
  /**
   * Follows a command with this `execId` from the beginning of its output, also if another process started it.
   * Throws `not_found` for an unknown id. Only on providers whose shells outlive the client.
   */
  attach?(execId: string, options?: Omit<ShellExecOptions, 'execId' | 'timeoutMs'>): Promise<ShellResult>
  /** Ends the shell and its programs. Returns false if it was already closed. */
  close(options?: CallOptions): Promise<boolean>
}

export interface ShellExecOptions extends CallOptions {
  /**
   * Ends the command and all its descendants; the shell keeps running. The call rejects with `aborted`, and
   * `details.output` of the error has the output so far, at most 64 KiB.
   */
  signal?: AbortSignal
  /**
   * After this time the command and all its descendants are killed, also background jobs. The shell and jobs of
   * earlier commands keep running.
   */
  timeoutMs?: number
  /**
   * Called with output as it arrives. A returned promise is awaited before more is read, so a slow listener slows the
   * command.
   */
  onOutput?: (text: string) => unknown
  maxOutputBytes?: number
  /** Limits the memory that several results use together. */
  outputBudget?: OutputBudget
  /** An id for `attach`, chosen by the caller. Ignored by providers without `attach`. */
  execId?: string
  /** Called once `attach` has found the command. */
  onFound?: () => void
}

export interface ShellResult {
  exitCode: number
  /** stdout and stderr, interleaved in order of arrival. */
  output: string
  /** The shell's working directory after the command. */
  cwd: string
  timedOut: boolean
  truncated: boolean
  durationMs: number
  /**
   * The previous shell had ended (`exit`, `exec`, a kill), so this command ran in a new one: variables are lost, the
   * cwd is kept.
   */
  shellRestarted: boolean
  /**
   * A problem with the shell, reported in the first affected result: for example, its profile could not be read
   * completely.
   */
  warning?: string
}

export interface OpenTerminalOptions extends CallOptions {
  /** Default: the sandbox's login shell. */
  cmd?: string
  args?: readonly string[]
  env?: Environment
  cwd?: string
  cols?: number
  rows?: number
  /** Attaches to the terminal with this id if it is open. */
  terminalId?: string
}

export interface SandboxTerminal {
  readonly terminalId: string
  write(data: string | Uint8Array, options?: CallOptions): Promise<void>
  resize(size: { cols: number; rows: number }, options?: CallOptions): Promise<void>
  /** The terminal's output, numbered like a process's output; all events have type `stdout`. */
  output(options?: OutputOptions): AsyncIterable<ProcessEvent>
  kill(signal?: ProcessSignal, options?: CallOptions): Promise<boolean>
  status(options?: CallOptions): Promise<ProcessStatus>
}
