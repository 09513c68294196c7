import type { SessionInfo } from '@sandkasten/sdk/client'

export class SandboxClient {
  constructor(opts: { baseUrl: string; apiKey: string })
  createSession(opts?: { image?: string; ttlSeconds?: number }): Promise<Session>
  getSession(id: string): Promise<Session>
  listSessions(): Promise<SessionInfo[]>
}

export class Session {
  readonly id: string
  exec(cmd: string, opts?: { timeoutMs?: number }): Promise<ExecResult>
  write(path: string, content: string | Uint8Array): Promise<void>
  read(path: string, opts?: { maxBytes?: number }): Promise<Uint8Array>
  destroy(): Promise<void>
}

export interface ExecResult {
  exitCode: number
  cwd: string
  output: string
  truncated: boolean
  durationMs: number
}
