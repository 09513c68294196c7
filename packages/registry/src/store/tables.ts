/** The rows, the same on SQLite and Postgres. Times are whole milliseconds since 1970; objects are JSON text. */
export interface Tables {
  sandboxes: SandboxRow
  thread_sandboxes: ThreadRow
  sandbox_holds: HoldRow
  sandbox_providers: ProviderRow
  sandbox_secrets: SecretRow
  registry_facts: FactRow
  registry_scopes: ScopeRow
}

export type RecordStatus =
  | 'creating'
  | 'running'
  | 'paused'
  | 'stopped'
  | 'archived'
  | 'failed'
  | 'destroyed'
  | 'unknown'

/** What a process does, or did not finish, with a sandbox. */
export type Operation = 'create' | 'start' | 'restore' | 'stop' | 'snapshot' | 'destroy' | 'network' | 'check'

export interface SandboxRow {
  id: string
  app_id: string
  guild_id: string
  /** The channel that owns the sandbox. */
  channel_id: string | null
  name: string
  /** 1: the name is taken. 0: a tombstone. */
  live: number
  provider: string
  /** Null: the provider needs no credentials. */
  credentials_id: string | null
  /** The provider's own id. Null before the create has succeeded, and after the sandbox is gone. */
  provider_sandbox_id: string | null
  status: RecordStatus
  /** Why the status is `failed`, or why the last check did not succeed. */
  error_message: string | null
  /** Counts starts: a new sandbox, a start, a restore from a snapshot. Handles belong to one incarnation. */
  incarnation: number
  /** Where an agent's server in the sandbox answers, while it runs. */
  base_url: string | null
  /** The last snapshot. */
  snapshot_id: string | null
  snapshot_at: number | null
  /** 1: made by the registry, which deletes it when a newer one replaces it. */
  snapshot_auto: number
  repo_url: string | null
  label: string | null
  /** The folder of the project inside the sandbox. */
  directory: string | null
  /** JSON of `SandboxSettings`: what a restore needs again. */
  settings: string
  /** Encrypted JSON of the environment variables given at create. */
  env: string | null
  /** Encrypted. */
  opencode_password: string | null
  /** When the provider ends the sandbox, as of the last check. */
  expires_at: number | null
  /** Stop after this long without use. */
  idle_stop_ms: number | null
  /** When a process should look at this sandbox next; null: nothing is due. */
  due_at: number | null
  last_used_at: number
  last_checked_at: number | null
  created_at: number
  updated_at: number
  destroyed_at: number | null
  /** The lease of the running operation; see `leases`. The token only grows: it fences out earlier holders. */
  lease_token: number
  /** The process, as `holder.ts` writes it. Null: free. */
  lease_holder: string | null
  /** Every write of the holder counts this up. */
  lease_beat: number
  /** Null: nothing to do. With a free lease: the last holder could not finish it, so the next one recovers it first. */
  operation: Operation | null
}

/** A thread attached to a sandbox. */
export interface ThreadRow {
  app_id: string
  guild_id: string
  thread_id: string
  sandbox_id: string
  created_at: number
}

/** A process that uses a sandbox right now, for a thread or for a command line. */
export interface HoldRow {
  id: string
  sandbox_id: string
  thread_id: string | null
  /** The process, as `holder.ts` writes it. */
  holder: string
  /** The process counts this up while it lives. */
  beat: number
  /** Shown to people: `exec npm test`, `shell`, `agent`. */
  purpose: string
  created_at: number
}

/** A provider that was set up, with its credentials. */
export interface ProviderRow {
  id: string
  app_id: string
  provider: string
  label: string | null
  /** Encrypted JSON of the secret fields. */
  api_key: string
  /** JSON of the other fields. */
  config_json: string
  is_default: number
  created_at: number
  updated_at: number
  checked_at: number | null
}

/** A value that network policies of one scope name. */
export interface SecretRow {
  id: string
  app_id: string
  guild_id: string
  /** Its name. */
  secret: string
  /** Counts the values that it had. */
  version: number
  /** Encrypted JSON of the scope, the name and the value. */
  sealed: string
  created_at: number
  updated_at: number
}

/**
 * `key_id`: the key that all encrypted columns are encrypted with. `worker`: the process that does due work in a loop, as
 * `worker-sign.ts` writes it. `erase_due`: old versions of encrypted values that have to be erased.
 * `pruned_at`: when tombstones were forgotten last.
 */
export type FactName = 'registry_id' | 'key_id' | 'worker' | 'erase_due' | 'pruned_at'

/** A fact about the whole registry. */
export interface FactRow {
  name: FactName
  value: string
}

/** Serializes creates of one scope, so that limits hold. */
export interface ScopeRow {
  app_id: string
  guild_id: string
  turn: number
}
