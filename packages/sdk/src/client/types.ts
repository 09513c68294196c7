import type { CallOptions, Environment, Network } from '../spec/index.ts'

export interface ExecResult {
  exitCode: number
  /** The shell's directory after the command. */
  cwd: string
  /** stdout and stderr, in the order of arrival. */
  output: string
  truncated: boolean
  durationMs: number
  timedOut: boolean
  /** The shell had ended, so this command ran in a new one. */
  shellRestarted: boolean
  /** A problem of the shell, such as a profile that failed. */
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
  /** The reason for the status, and its originator. */
  statusReason: string
  statusBy: string
  statusAt: Date
  /** The subject of the token that created the session. */
  subject?: string
  image: string
  labels: Record<string, string>
  /** Names of the variables given at create. Their values are never returned. */
  envNames: string[]
  limits: { cpu: number; memoryMb: number; pids: number; diskMb?: number }
  networkMode: string
  /** What the session may reach. Secrets are in it by name only. */
  network?: Network
  workdir?: string
  /** `root`, or undefined for the sandbox's ordinary user. */
  user?: string
  /** Folders that the user may write to. Undefined if they are not known. */
  writablePaths?: string[]
  /** The working directory of the main shell. */
  cwd?: string
  /** The number of starts. */
  incarnation: number
  snapshotId?: string
  volumes: SessionVolume[]
  wakeOnUse: boolean
  ttlSeconds: number
  onIdle: EndAction
  lifetimeSeconds?: number
  onLifetime: EndAction
  createdAt: Date
  startedAt: Date
  lastActivity: Date
  /** The end of the lease, if the session is not used again. */
  expiresAt?: Date
  /** The end of the lifetime. */
  lifetimeEndsAt?: Date
}

/** A volume that a session mounts. */
export interface SessionVolume {
  name: string
  /** Where the session sees the volume. */
  path: string
  readOnly: boolean
}

export interface CreateSessionOptions extends CallOptions {
  image?: string
  /** Selects an image that has this program: `node24`, `python3.13`. */
  runtime?: string
  /** The idle time after which the session ends. */
  ttlSeconds?: number
  onIdle?: EndAction
  /** The maximum time from each start. */
  lifetimeSeconds?: number
  onLifetime?: EndAction
  /** Start a stopped session on use. */
  wakeOnUse?: boolean
  /** Start from the disk of this snapshot. */
  snapshotId?: string
  /** Unique among the project's live sessions. */
  name?: string
  labels?: Readonly<Record<string, string>>
  /** Environment of every command. The values are never returned. */
  env?: Environment
  limits?: { cpu?: number; memoryMb?: number; pids?: number; diskMb?: number }
  networkMode?: 'none' | 'open'
  /** What the session may reach: `none`, `open` or a policy. Not together with `networkMode`. */
  network?: Network
  /** Commands run as root of the sandbox. */
  user?: 'root'
  /** Where `/tmp` is: on the disk (the default), or in memory and empty after each start. */
  tmp?: 'disk' | 'memory'
  /** Volumes to mount. One running session may write to a volume; any number may read. */
  volumes?: ReadonlyArray<{ name: string; path: string; readOnly?: boolean }>
  /** Makes retries safe: a second create with the same key returns the first session. */
  idempotencyKey?: string
  /** Additional fields of the request, with the names of the API. */
  extra?: Readonly<Record<string, unknown>>
}

export interface ListSessionsOptions extends CallOptions {
  status?: SessionStatus | readonly SessionStatus[]
  name?: string
  /** Only sessions that tokens of this subject created. */
  subject?: string
  labels?: Readonly<Record<string, string>>
  /** The size of one page. Without it, all sessions are returned. */
  limit?: number
  cursor?: string
}

/** What sessions of a project may use. It narrows the configuration of the daemon. */
export interface Policy {
  /** Patterns: `*` stands for any text. */
  images?: readonly string[]
  networks?: ReadonlyArray<'none' | 'open' | 'policy'>
  /** What network policies may name: `*.example.com`, `preset:github`. */
  hosts?: readonly string[]
  /** The daemon's services that network policies may name. */
  services?: readonly string[]
  /** The highest limits of one session. */
  max?: { cpu?: number; memoryMb?: number; pids?: number; diskMb?: number }
  maxTtlSeconds?: number
  maxLifetimeSeconds?: number
  /** Images whose pooled sandboxes the project may take. An empty list: none. */
  pool?: readonly string[]
}

export interface ProjectPolicy {
  policy: Policy
  /** The configuration, narrowed by the policy. */
  effective: {
    images: string[]
    defaultImage: string
    networks: string[]
    max: { cpu: number; memoryMb: number; pids: number; diskMb: number }
    maxTtlSeconds: number
    maxLifetimeSeconds: number
  }
}

/** An array with the cursor of the next page. */
export interface Page<T> extends Array<T> {
  nextCursor?: string
}

export interface ExecOptions extends CallOptions {
  /** Stops the command, not the shell. */
  timeoutMs?: number
  /** The name of the shell. Default: `main`. */
  shell?: string
  /** Receives output while the command runs. */
  onOutput?: (text: string) => unknown
  maxOutputBytes?: number
  /** Makes retries safe, and lets you find the command again. */
  execId?: string
}

export interface RunOptions extends CallOptions {
  args?: readonly string[]
  env?: Environment
  cwd?: string
  timeoutMs?: number
  /** Sent to the program, followed by end-of-file. */
  stdin?: string | Uint8Array
  maxOutputBytes?: number
  /** `merged`: one pipe for stdout and stderr. All output is `stdout`, in its true order. */
  output?: 'separate' | 'merged'
}

export interface StartOptions extends RunOptions {
  execId?: string
  /** Keep stdin open for `write`. */
  stdinOpen?: boolean
  /** The program may continue without a reader, and does not extend the lease. Default: true. */
  detach?: boolean
  outputBufferBytes?: number
}

export interface CommandInfo {
  execId: string
  kind: 'exec' | 'run'
  /** `lost`: the result is unknown, because the sandbox or the shell ended first. */
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

/** A folder that outlives sessions. */
export interface VolumeInfo {
  name: string
  /** `lost`: its content has disappeared from the daemon's machine. */
  status: 'ready' | 'lost'
  /** The most that it can hold. Undefined: no limit. */
  limitMb?: number
  /** The disk space that it uses. Undefined in lists. */
  sizeBytes?: number
  /** The session that may write to it now. */
  writerSessionId?: string
  createdAt: Date
}

export interface PortInfo {
  sessionId: string
  port: number
  /** The audience of the port; null: the port is closed. */
  visibility: 'private' | 'token' | 'public' | null
  /** Whether a program listens on the port; null: unknown. */
  listening: boolean | null
  wakeOnVisit: boolean
  /** A URL with its own host name, and so its own origin; null without a configured domain. */
  url: string | null
  /** For programs, and for machines that cannot resolve the host name. */
  pathUrl: string | null
  openedAt: Date | null
  /** Only returned when it was just created. */
  token?: string
}

export interface SessionEvent {
  id: number
  type: string
  sessionId?: string
  data: Record<string, unknown>
  createdAt: Date
}
