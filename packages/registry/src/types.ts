import type {
  CallOptions,
  Network,
  SandboxHandle,
  SandboxInfo,
  SandboxResources,
  SandboxUser,
  SnapshotInfo,
} from '@sandkasten/sdk'
import type { RecordStatus } from './store/tables.ts'

/** Where names are unique. The default scope (all empty) belongs to the command line. */
export interface Scope {
  readonly appId?: string
  readonly guildId?: string
  /** The channel that owns what is created here. Names are unique in the guild, not in the channel. */
  readonly channelId?: string
}

/** What the registry knows about a sandbox. Contains no secret. */
export interface SandboxRecord {
  readonly id: string
  readonly name: string
  readonly provider: string
  /** The provider's own id, while the sandbox exists there. */
  readonly providerSandboxId?: string
  /** The last known one. */
  readonly status: RecordStatus
  /** True: the provider was asked for this record, and did not answer. `errorMessage` says why. */
  readonly unreachable: boolean
  /** Why the status is `failed` or `unknown`, or why the last operation or check did not succeed. */
  readonly errorMessage?: string
  /** Counts starts of the sandbox under this name. */
  readonly incarnation: number
  readonly baseUrl?: string
  readonly snapshotId?: string
  readonly snapshotAt?: Date
  readonly repoUrl?: string
  readonly label?: string
  /** The folder of the project inside the sandbox. */
  readonly directory?: string
  readonly image?: string
  readonly ports: readonly number[]
  /** What it may reach, as it was last set. Undefined: the provider's default. */
  readonly network?: Network
  readonly channelId?: string
  readonly expiresAt?: Date
  readonly idleStopMs?: number
  readonly lastUsedAt: Date
  readonly lastCheckedAt?: Date
  readonly createdAt: Date
  /** Threads attached to the sandbox. */
  readonly threads: readonly string[]
  /** What uses the sandbox right now. */
  readonly uses: readonly Use[]
}

/** A process that uses a sandbox right now. */
export interface Use {
  readonly threadId?: string
  /** `exec npm test`, `shell`, `agent`. */
  readonly purpose: string
  readonly since: Date
  /** The process id, if it runs on this machine. */
  readonly pid?: number
}

/** A running sandbox under its name. The handle belongs to `record.incarnation`. */
export interface NamedSandbox {
  readonly record: SandboxRecord
  readonly handle: SandboxHandle
  readonly incarnation: number
}

export interface CreateOptions extends CallOptions {
  /** Default: a free readable name, such as `brave-otter`. */
  name?: string
  /** Default: the scope's default provider. */
  provider?: string
  /** A git repository to clone. */
  repo?: string
  /** For a private repository; used once and never stored. */
  gitToken?: string
  /** A folder of this machine to upload. Not together with `repo`. */
  upload?: string
  snapshotId?: string
  image?: string
  runtime?: string
  /** Stored encrypted, because a restore from a snapshot needs them again. */
  envVars?: Readonly<Record<string, string | undefined>>
  label?: string
  labels?: Readonly<Record<string, string>>
  lifetimeMs?: number
  /** Stop the sandbox after this long without use. */
  idleStopMs?: number
  ports?: readonly number[]
  resources?: SandboxResources
  user?: SandboxUser
  /** What the sandbox may reach. Secrets are in it by name. */
  network?: Network
  providerOptions?: Readonly<Record<string, unknown>>
  /** Attach this thread to the new sandbox. */
  threadId?: string
  onProgress?: (step: ProgressStep) => void
  /** The limit of the whole call, with clone or upload. Default: each request to the provider has its own. */
  timeoutMs?: number
}

/** Stored as JSON in `settings`: the options that a restore from a snapshot needs again. */
export interface SandboxSettings {
  /** The project's folder, relative to the working directory, which can be another one after a restore. */
  readonly projectPath?: string
  readonly image?: string
  readonly runtime?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly lifetimeMs?: number
  readonly ports?: readonly number[]
  readonly resources?: SandboxResources
  readonly user?: SandboxUser
  /** As it was last seen or set. */
  readonly network?: Network
  /** Set, and not yet in force: the next start applies it. */
  readonly networkNext?: Network
  readonly providerOptions?: Readonly<Record<string, unknown>>
}

/** A step of a longer operation, for a progress line. */
export interface ProgressStep {
  readonly step:
    | 'create'
    | 'clone'
    | 'upload'
    | 'start'
    | 'restore'
    | 'snapshot'
    | 'stop'
    | 'destroy'
    | 'wait'
    | 'done'
  /** `creating at daytona`, `cloning https://…`, `another process starts it`. */
  readonly message: string
  readonly done?: number
  readonly total?: number
}

export interface OperationOptions extends CallOptions {
  onProgress?: (step: ProgressStep) => void
  /**
   * The limit of the whole call, including the wait for another process's operation; then it throws `timeout`. Default:
   * each request to the provider has its own limit.
   */
  timeoutMs?: number
}

export interface InterruptingOptions extends OperationOptions {
  /** Go on although others use the sandbox. Otherwise that throws `conflict` with `details.uses`. */
  force?: boolean
  /** Uses of this thread do not count as others. */
  threadId?: string
}

export interface DestroyResult {
  /** False: there was no sandbox at the provider any more. */
  readonly existed: boolean
  /** Threads that were attached. */
  readonly threads: readonly string[]
  /** The last snapshot, if a caller made it: it still exists. Snapshots of the registry's own are deleted. */
  readonly snapshotId?: string
}

export interface ListOptions extends CallOptions {
  status?: RecordStatus | readonly RecordStatus[]
  provider?: string
  /** Only sandboxes of the scope's channel. */
  channel?: boolean
  /** Ask the providers, in parallel. Sandboxes of a provider that does not answer are `unreachable`. */
  refresh?: boolean | { timeoutMs: number }
  /** Also tombstones. */
  destroyed?: boolean
}

export interface SnapshotListOptions extends CallOptions {
  /** Default: the scope's default provider. */
  provider?: string
}

export interface DeleteSnapshotOptions extends SnapshotListOptions {
  /** Also if a sandbox would be restored from it. Otherwise that throws `conflict`. */
  force?: boolean
}

/** A snapshot at a provider. */
export interface NamedSnapshot extends SnapshotInfo {
  readonly provider: string
  /** The name of the sandbox of this scope that it belongs to. */
  readonly sandbox?: string
  /** Whether that sandbox is restored from it. */
  readonly isLast: boolean
}

export interface HoldOptions extends OperationOptions {
  threadId?: string
  purpose?: string
}

/** While it is held, the sandbox is kept alive, and others do not stop it without `force`. */
export interface Hold extends AsyncDisposable, NamedSandbox {
  /** Aborts when the sandbox ended or was replaced under this hold; the reason is a `SandboxError`. */
  readonly signal: AbortSignal
  release(): Promise<void>
}

export interface WorkReport {
  /** What was done, one entry for each sandbox: `stopped after 30 minutes without use`. */
  readonly done: ReadonlyArray<{ readonly sandbox: string; readonly action: string }>
  readonly failed: ReadonlyArray<{ readonly sandbox: string; readonly error: unknown }>
}

export interface ReconcileReport extends WorkReport {
  /** Sandboxes at the provider that carry this registry's label but no row; they were destroyed. Also in `done`. */
  readonly orphans: readonly SandboxInfo[]
  /** Providers that could not be asked. */
  readonly unreachable: ReadonlyArray<{ readonly provider: string; readonly error: unknown }>
}
