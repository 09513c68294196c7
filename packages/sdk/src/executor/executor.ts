import type { CommandResult } from '../spec/index.ts'

/**
 * The small interface: run a command, keep some files, clean up. One executor belongs to one conversation;
 * conversations never share files or processes.
 */
export interface SandboxExecutor {
  /** Runs a program with unchanged arguments: no shell, no joining, no expansion. Returns the real exit code. */
  execute(command: string, args?: readonly string[], options?: ExecuteOptions): Promise<CommandResult>
  /** Creates parent folders. */
  writeFile(path: string, content: string | Uint8Array): Promise<void>
  /** Returns text, or null if the file does not exist. Other failures throw. */
  readFile(path: string): Promise<string | null>
  /** Sorted names in a folder. Default: the working directory. */
  listFiles(path?: string): Promise<string[]>
  /** Ends all processes and removes all files. The executor can be used again. */
  cleanup(): Promise<void>
}

export interface ExecuteOptions {
  /** Relative to the working directory. */
  cwd?: string
  env?: Readonly<Record<string, string>>
  /** Milliseconds until the command and its descendants are killed. Default 10,000. */
  timeout?: number
  /** Run as root, if the sandbox has sudo. */
  sudo?: boolean
  signal?: AbortSignal
}

export type { CommandResult }
