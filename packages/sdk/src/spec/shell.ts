import type { CallOptions, ProcessSignal } from './common.ts'
import type { OutputBudget, OutputOptions, ProcessEvent, ProcessStatus } from './process.ts'

export interface OpenShellOptions extends CallOptions {
  /** A shell with this name that is open already is returned as it is. Without one, every call opens a new shell. */
  name?: string
  cwd?: string
  env?: Readonly<Record<string, string>>
  /**
   * Whether the shell reads the profile of the sandbox's user first, as `bash -l` does. Default: true on the engine and on a daemon, false elsewhere.
   * Providers that cannot do it refuse `true` with `unsupported`. A shell that is open already is returned as it is.
   */
  login?: boolean
}

/**
 * A shell that keeps its state between commands. Commands run one after the other; a second `exec` waits for
 * the first. Their stdin is at end-of-file.
 */
export interface SandboxShell {
  readonly name: string
  /** Where the shell is now, as it last reported. */
  readonly cwd: string
  exec(command: string, options?: ShellExecOptions): Promise<ShellResult>
  /**
   * Follows the command with this `execId` from the beginning of its output, also if another process started it.
   * Throws `not_found` for an unknown id. Only where shells outlive the process that opened them.
   */
  attach?(execId: string, options?: Omit<ShellExecOptions, 'execId' | 'timeoutMs'>): Promise<ShellResult>
  /** Ends the shell and what runs in it. False when it was closed already. */
  close(options?: CallOptions): Promise<boolean>
}

export interface ShellExecOptions extends CallOptions {
  /** Ends the command and everything it started, also in the background; not the shell, nor what earlier commands have left running. */
  timeoutMs?: number
  /** Called with output as it arrives. A promise is awaited before more is read, so a slow listener slows the command. */
  onOutput?: (text: string) => unknown
  maxOutputBytes?: number
  /** Limits the memory that several results use together. */
  outputBudget?: OutputBudget
  /** An id of your choice, with which `attach` finds the command again. Ignored where there is no `attach`. */
  execId?: string
  /** Called once `attach` has found the command. */
  onFound?: () => void
}

export interface ShellResult {
  exitCode: number
  /** stdout and stderr as they came, in order. */
  output: string
  /** The shell's working directory after the command. */
  cwd: string
  timedOut: boolean
  truncated: boolean
  durationMs: number
  /** This command ran in a fresh shell, because the one before had ended (`exit`, `exec`, a kill): its variables are lost, the cwd is kept. */
  shellRestarted: boolean
  /** Something about the shell that you should know, in the first result that it is true for: its profile could not be read to the end. */
  warning?: string
}

export interface OpenTerminalOptions extends CallOptions {
  /** Default: the sandbox's login shell. */
  cmd?: string
  args?: readonly string[]
  env?: Readonly<Record<string, string>>
  cwd?: string
  cols?: number
  rows?: number
  /** An id that is open already is re-attached. */
  terminalId?: string
}

export interface SandboxTerminal {
  readonly terminalId: string
  write(data: string | Uint8Array, options?: CallOptions): Promise<void>
  resize(size: { cols: number; rows: number }, options?: CallOptions): Promise<void>
  /** What the screen was sent, numbered like a process's output; all of it of type `stdout`. */
  output(options?: OutputOptions): AsyncIterable<ProcessEvent>
  kill(signal?: ProcessSignal, options?: CallOptions): Promise<boolean>
  status(options?: CallOptions): Promise<ProcessStatus>
}
