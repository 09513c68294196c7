import type { CommandResult } from '../spec/index.ts'

/**
 * The small interface: run a command, keep some files, clean up. One executor belongs to one conversation; two
 * conversations never share files or processes.
 */
export interface SandboxExecutor {
  /** Runs a program with its arguments as they are: no shell, nothing joined or expanded. Exit codes are real. */
  execute(command: string, args?: readonly string[], options?: ExecuteOptions): Promise<CommandResult>
  /** Makes parent folders. */
  writeFile(path: string, content: string | Uint8Array): Promise<void>
  /** Text, or null when there is no such file. Any other failure is an error. */
  readFile(path: string): Promise<string | null>
  /** Names in a folder (the working directory if none is given), sorted. */
  listFiles(path?: string): Promise<string[]>
  /** Ends what runs and removes all files. The executor can be used again. */
  cleanup(): Promise<void>
}

export interface ExecuteOptions {
  /** Relative to the working directory. */
  cwd?: string
  env?: Readonly<Record<string, string>>
  /** Milliseconds until the command and all it started is killed. Default 10,000. */
  timeout?: number
  /** As root, where the sandbox has sudo. */
  sudo?: boolean
  signal?: AbortSignal
}

export type { CommandResult }
