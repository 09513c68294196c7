import type { CallOptions } from '../spec/index.ts'

/** The seed's, and what it lacked. */
export interface ExecResult {
  exitCode: number
  /** The shell's directory after the command. */
  cwd: string
  /** stdout and stderr as they came. */
  output: string
  truncated: boolean
  durationMs: number
  timedOut: boolean
  /** The shell had ended and this command ran in a fresh one. */
  shellRestarted: boolean
  /** Something about the shell that you should know: its profile could not be read to the end. */
  warning?: string
}

export interface RunResult {
  exitCode: number
  stdout: string
  stderr: string
  signal?: string
  timedOut: boolean
  truncated: boolean
  oom?: boolean
  durationMs: number
}

export type SessionStatus =
  | 'creating'
  | 'running'
  | 'paused'
  | 'stopped'
  | 'expired'
  | 'crashed'
  | 'failed'
  | 'destroyed'

export type EndAction = 'stop' | 'snapshot-and-stop' | 'pause' | 'destroy'

export interface SessionInfo {
  id: string
  name?: string
  status: SessionStatus
  /** Why it is so, and who made it so. */
  statusReason: string
  statusBy: string
  statusAt: Date
  image: string
  labels: Record<string, string>
  /** Names of the variables given at create; their values are not shown again. */
  envNames: string[]
  limits: { cpu: number; memoryMb: number; pids: number; diskMb?: number }
  networkMode: string
  workdir?: string
  /** Of the main shell. */
  cwd?: string
  /** Counts starts. */
  incarnation: number
  snapshotId?: string
  wakeOnUse: boolean
  ttlSeconds: number
  onIdle: EndAction
  lifetimeSeconds?: number
  onLifetime: EndAction
  createdAt: Date
  startedAt: Date
  lastActivity: Date
  /** When it ends if nobody uses it. */
  expiresAt?: Date
  /** When it ends in any case. */
  lifetimeEndsAt?: Date
}

export interface CreateSessionOptions extends CallOptions {
  image?: string
  /** How long it may be idle. */
  ttlSeconds?: number
  onIdle?: EndAction
  /** How long it may run after each start. */
  lifetimeSeconds?: number
  onLifetime?: EndAction
  /** Start it when it is stopped and somebody uses it. */
  wakeOnUse?: boolean
  /** Start from a saved disk. */
  snapshotId?: string
  /** Unique among the project's live sessions. */
  name?: string
  labels?: Readonly<Record<string, string>>
  /** For every command; not shown again. */
  env?: Readonly<Record<string, string>>
  limits?: { cpu?: number; memoryMb?: number; pids?: number; diskMb?: number }
  networkMode?: 'none' | 'open'
  /** Makes a repeat harmless: the second create gets the session of the first. */
  idempotencyKey?: string
  /** Further fields of the request, under the API's own names. */
  extra?: Readonly<Record<string, unknown>>
}

export interface ListSessionsOptions extends CallOptions {
  status?: SessionStatus | readonly SessionStatus[]
  name?: string
  labels?: Readonly<Record<string, string>>
  /** One page of at most so many. Without it, all. */
  limit?: number
  cursor?: string
}

/** An array that knows how to go on. */
export interface Page<T> extends Array<T> {
  nextCursor?: string
}

export interface ExecOptions extends CallOptions {
  /** Ends the command, not the shell. */
  timeoutMs?: number
  /** Which of the session's shells. Default `main`. */
  shell?: string
  /** Told of output while the command runs. */
  onOutput?: (text: string) => unknown
  maxOutputBytes?: number
  /** Makes a repeat harmless, and lets the command be found again. */
  execId?: string
}

export interface RunOptions extends CallOptions {
  args?: readonly string[]
  env?: Readonly<Record<string, string>>
  cwd?: string
  timeoutMs?: number
  /** Sent, then end-of-file. */
  stdin?: string | Uint8Array
  maxOutputBytes?: number
}

export interface StartOptions extends RunOptions {
  execId?: string
  /** Keep stdin open for `write`. */
  stdinOpen?: boolean
  /** It may run on while nobody waits for it, and does not put off the session's end. Default true. */
  detach?: boolean
  outputBufferBytes?: number
}

export interface CommandInfo {
  execId: string
  kind: 'exec' | 'run'
  /** `lost`: how it ended is not known, because its sandbox or shell ended before it. */
  status: 'running' | 'done' | 'lost'
  shell?: string
  command: string | string[]
  detached: boolean
  incarnation: number
  createdAt: Date
  endedAt?: Date
  result?: RunResult | ExecResult
}

export interface ShellInfo {
  name: string
  cwd: string
}

export interface SnapshotInfo {
  id: string
  name?: string
  sessionId: string
  image: string
  sizeBytes?: number
  createdAt: Date
}

export interface PortInfo {
  sessionId: string
  port: number
  /** Who may come; null: it is not open. */
  visibility: 'private' | 'token' | 'public' | null
  /** Whether something listens there now; null: not known. */
  listening: boolean | null
  wakeOnVisit: boolean
  /** A name, and so an origin, of its own; null where there is no domain. */
  url: string | null
  /** For programs, and where such names do not resolve. */
  pathUrl: string | null
  openedAt: Date | null
  /** Only when it was made just now. */
  token?: string
}

export interface SessionEvent {
  id: number
  type: string
  sessionId?: string
  data: Record<string, unknown>
  createdAt: Date
}
