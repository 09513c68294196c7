import type { SandboxErrorCode } from '../errors.ts'
import type { CommandResult, Environment } from '../spec/index.ts'

/**
 * The small interface: run a command, keep some files, clean up. One executor belongs to one conversation;
 * conversations never share files or processes.
 */
export interface SandboxExecutor {
  /** Runs a program with unchanged arguments: no shell, no joining, no expansion. Returns the real exit code. */
  execute(command: string, args?: readonly string[], options?: ExecuteOptions): Promise<ExecuteResult>
  /** Runs one line in a new shell: bash where it is installed, otherwise sh. */
  executeLine(line: string, options?: ExecuteOptions): Promise<ExecuteResult>
  /** Creates parent folders. */
  writeFile(path: string, content: string | Uint8Array, options?: CallOptions): Promise<void>
  /** Returns text, or null if the file does not exist. Other failures throw. */
  readFile(path: string, options?: ReadOptions): Promise<string | null>
  /** Sorted names in a folder. Default: the working directory. */
  listFiles(path?: string, options?: CallOptions): Promise<string[]>
  /** Ends all processes and removes all files. The executor can be used again. */
  cleanup(): Promise<void>
  /** How the sandbox was opened the last time, and whether files were lost. Absent before the first call. */
  readonly lastOpening?: Opening | undefined
}

export interface CallOptions {
  signal?: AbortSignal | undefined
}

export interface ReadOptions extends CallOptions {
  /** A larger file throws `too_large`. Default 256 MiB. */
  maxBytes?: number | undefined
}

export interface ExecuteOptions extends CallOptions {
  /** Relative to the working directory. */
  cwd?: string | undefined
  /** A variable that is undefined is ignored. */
  env?: Environment | undefined
  /** Milliseconds until the command and its descendants are killed. Default 10,000. */
  timeout?: number | undefined
  /** Run as root, if the sandbox has sudo. */
  sudo?: boolean | undefined
  /** The maximum size of stdout and stderr. Default: the executor's. */
  maxOutputBytes?: number | undefined
}

export interface ExecuteResult extends CommandResult {
  /** Set if the sandbox had ended, and was opened again for this command. */
  reopened?: Opening
}

/** How a conversation's sandbox was opened. */
export interface Opening {
  readonly sandboxId: string
  /**
   * `new`: the conversation's first sandbox. `kept`: its disk is as it was; programs have ended. `restored`: the disk
   * comes from the last snapshot. `lost`: a new sandbox, because the old one is gone.
   */
  readonly files: 'new' | 'kept' | 'restored' | 'lost'
  /** The error that showed that the earlier sandbox had ended. Absent for the first opening. */
  readonly reason?: SandboxErrorCode
  /** The snapshot of `restored`. */
  readonly snapshotId?: string
}

export type { CommandResult }
