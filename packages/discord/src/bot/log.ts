import { SandboxError } from '@sandkasten/sdk'

export interface LogEntry {
  readonly level: 'info' | 'warning' | 'error'
  readonly text: string
}

export type Log = (entry: LogEntry) => void

/** An error as one line. Errors of ours contain no secrets; of others the first line is kept. */
export function reasonOf(error: unknown): string {
  if (SandboxError.is(error)) return `${error.message} (${error.code})`
  return error instanceof Error ? `${error.name}: ${error.message.split('\n')[0]}` : String(error)
}
