import type { Generated } from 'kysely'

/** The rows, the same on SQLite and Postgres. Times are whole milliseconds since 1970; objects are JSON text. */
export interface Tables {
  projects: ProjectRow
  keys: KeyRow
  sessions: SessionRow
  execs: ExecRow
  snapshots: SnapshotRow
  volumes: VolumeRow
  secrets: SecretRow
  daemon_facts: FactRow
  ports: PortRow
  front_records: FrontRow
  events: EventRow
  audit: AuditRow
  idempotency: IdempotencyRow
}

export interface ProjectRow {
  id: string
  name: string
  /** JSON. Null means the configuration's quotas. */
  quotas: string | null
  /** JSON. Null means that only the configuration limits the project. */
  policy: string | null
  created_at: number
  /** Changed only to take the row's lock, which serializes creates of a project. */
  turn: number
}

export interface KeyRow {
  id: string
  project_id: string
  name: string
  /** SHA-256 of the key, in hexadecimal. A key has 160 random bits, so nothing slower is needed. */
  hash: string
  /** Separated by spaces: read, exec, admin, secrets. */
  scopes: string
  created_at: number
  expires_at: number | null
  revoked_at: number | null
  /** The subject of the token that this row stands for; see `Keys.insertGrant`. */
  subject: string | null
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

export interface SessionRow {
  id: string
  project_id: string
  /** The daemon that owns the session. */
  instance_id: string
  key_id: string
  /** The subject of the token that created the session. */
  subject: string | null
  name: string | null
  status: SessionStatus
  /** The reason for the status, and what set it: a key, `reaper`, `reconciler` or `daemon`. */
  status_reason: string
  status_by: string
  status_at: number
  /** Null until the sandbox exists. */
  sandbox_id: string | null
  /** The number of starts. */
  incarnation: number
  image: string
  labels: string
  env_names: string
  workdir: string | null
  cwd: string | null
  cpu: number
  mem_mb: number
  disk_mb: number
  pids: number
  /** `none`, `open` or `policy`. */
  network: string
  /** JSON of the policy, if `network` is `policy`. Secrets are in it by their names. */
  network_policy: string | null
  ttl_ms: number
  on_idle: string
  lifetime_ms: number | null
  on_lifetime: string
  /** How long a stopped session is kept. Null: until a caller destroys it. */
  stopped_ttl_ms: number | null
  wake_on_use: number
  /** `root`, or null for the sandbox's ordinary user. */
  run_user: string | null
  /** JSON: folders that the user may write to. Null until the sandbox exists, and if the provider does not know. */
  writable_paths: string | null
  snapshot_id: string | null
  /** JSON: the volumes that it mounts (`SessionVolume`). */
  volumes: string
  created_at: number
  started_at: number
  last_activity: number
  /** 1 while the session can still be used. Names are unique among live sessions, and quotas count them. */
  live: number
  /** 1 during a start. Quotas count the session as running. */
  starting: number
}

export interface ExecRow {
  session_id: string
  project_id: string
  exec_id: string
  kind: 'exec' | 'run' | 'terminal'
  /** running, done, lost (the sandbox or its shell ended before the command did). */
  status: 'running' | 'done' | 'lost'
  /** A detached command does not extend the session's lease. */
  detached: number
  incarnation: number
  shell: string | null
  /** JSON: the program and its arguments, or the shell's command. Never the environment. */
  command: string
  /** Identifies the request. A repeated request must have the same fingerprint. */
  fingerprint: string
  created_at: number
  ended_at: number | null
  /** JSON; null while the command runs. */
  result: string | null
  /** JSON: the newest events that are kept. */
  events: string | null
  /** The size of command, result and events, which counts against the budget for results. */
  bytes: number
}

export interface SnapshotRow {
  id: string
  project_id: string
  instance_id: string
  session_id: string
  name: string | null
  /** The provider's id of the snapshot. */
  provider_id: string
  image: string
  size_bytes: number | null
  created_at: number
  /** JSON: limits and network of the saved session. Null in rows of older daemons. */
  settings: string | null
}

/**
 * `creating` and `deleting`: the provider's volume may or may not exist; after a crash, reconciliation removes it and
 * the row. `lost`: the provider's volume has disappeared.
 */
export type VolumeState = 'creating' | 'ready' | 'deleting' | 'lost'

export interface VolumeRow {
  id: string
  project_id: string
  instance_id: string
  /** Unique among the project's volumes that are not being deleted. */
  name: string
  state: VolumeState
  /** The provider's name of the volume. It contains no name of a caller, so projects never meet. */
  provider_name: string
  /** Null: no limit. */
  limit_mb: number | null
  created_at: number
}

/** A secret of a project. Its value is encrypted, and leaves the daemon only for the gateway. */
export interface SecretRow {
  id: string
  project_id: string
  name: string
  /** Counts the values that it had. */
  version: number
  /** The encrypted value, with the project and the name; see `secrets/`. */
  sealed: string
  /** JSON: the hosts that it may be sent to. Null: any host of the session's policy. */
  hosts: string | null
  created_at: number
  updated_at: number
}

/** `key_id`: the key that all encrypted columns are encrypted with. */
export interface FactRow {
  name: string
  value: string
}

/** A port of a session that was opened to the outside. */
export interface PortRow {
  session_id: string
  port: number
  visibility: 'private' | 'token' | 'public'
  /** 1: a visit starts a stopped session. */
  wake: number
  /** SHA-256 of the port's token, in hexadecimal. */
  token_hash: string | null
  /** Signed links are valid for this generation. A new generation revokes them. */
  generation: string
  created_at: number
}

/** A record of a front. */
export interface FrontRow {
  front: string
  project_id: string
  kind: string
  key: string
  /** The record is deleted with this session. */
  session_id: string | null
  /** JSON. */
  data: string
  created_at: number
}

export interface EventRow {
  id: Generated<number>
  project_id: string
  session_id: string | null
  type: string
  data: string
  created_at: number
}

export interface AuditRow {
  id: Generated<number>
  project_id: string
  key_id: string
  /** The subject of the caller's token. */
  subject: string | null
  action: string
  target: string | null
  status: number
  request_id: string
  created_at: number
}

export interface IdempotencyRow {
  project_id: string
  key: string
  fingerprint: string
  session_id: string
  created_at: number
}
