import type { AllCapabilities, Capabilities, Parts } from './capabilities.ts'
import type { CallOptions } from './common.ts'
import type { SandboxHandle } from './sandbox.ts'

/** Creates, finds and lists sandboxes. */
export type SandboxProvider<C extends Capabilities = AllCapabilities> = SandboxProviderCore<C> &
  Parts<C, 'provider'>

export interface SandboxProviderCore<C extends Capabilities = AllCapabilities> {
  readonly name: string
  readonly capabilities: C
  /** What isolates the sandbox from this machine and from other sandboxes. `none`: no isolation. */
  readonly isolation: Isolation
  /** The supported options of `create`. Other options throw `unsupported`. */
  readonly createOptions: ReadonlySet<CreateOption>

  /** If this rejects, everything that it created has been removed. */
  create(options?: CreateSandboxOpts): Promise<SandboxHandle<C>>
  /** Takes `id` or `sandboxId`. Starts a stopped sandbox unless `resume: false`. Throws `not_found`. */
  get(sandboxId: string, options?: GetSandboxOpts): Promise<SandboxHandle<C>>
  /** Returns the sandbox with this name and creates it if needed. Concurrent callers get the same sandbox. */
  getOrCreate(options: GetOrCreateOpts<C>): Promise<SandboxHandle<C>>
  /**
   * Lists all matching sandboxes, or one page of them if `limit` is given. Only sandboxes created through this
   * library.
   */
  list(options?: ListSandboxesOpts): Promise<SandboxPage>
  /** Does not wake the sandbox. Returns false if it does not exist. */
  destroy(sandboxId: string, options?: CallOptions): Promise<boolean>
  /** Whether the provider is reachable and its credentials are valid. */
  healthCheck(options?: CallOptions): Promise<boolean>
}

export type Isolation = 'none' | 'process' | 'container' | 'gvisor' | 'vm' | 'simulated'

export type SandboxStatus =
  | 'creating'
  | 'running'
  | 'paused'
  | 'stopped'
  | 'archived'
  | 'failed'
  | 'destroyed'
  /** The vendor reports a status that the SDK does not know; see `rawStatus`. */
  | 'unknown'

export interface CreateSandboxOpts extends CallOptions {
  /** Unique among the provider's live sandboxes; a taken name throws `conflict`. Required by `getOrCreate`. */
  name?: string
  /** A display name. */
  label?: string
  /** `list` can filter by these. */
  labels?: Readonly<Record<string, string>>
  /** Set for every command in the sandbox. */
  envVars?: Readonly<Record<string, string>>
  /** The maximum lifetime. The sandbox is stopped afterwards. */
  lifetimeMs?: number
  /** The older name of `lifetimeMs`. */
  timeout?: number
  /** Start from this snapshot. */
  snapshotId?: string
  /** Start from this image, if the provider has images. */
  image?: string
  /** A vendor's name for a kind of image, such as `node24`. */
  runtime?: string
  /** Ports to expose, for providers that must know them at creation. */
  ports?: readonly number[]
  resources?: SandboxResources
  /** A git repository to clone into the working directory. */
  repo?: string
  /** For a private repository; never written to disk, argv or logs. */
  gitToken?: string
  /** Options of a single vendor, under that vendor's names. */
  providerOptions?: Readonly<Record<string, unknown>>
}

export type CreateOption = Exclude<keyof CreateSandboxOpts, 'signal' | 'timeout'>

export interface SandboxResources {
  vcpus?: number
  memoryMb?: number
  diskMb?: number
}

export interface GetSandboxOpts extends CallOptions {
  /** Default true. */
  resume?: boolean
}

export interface GetOrCreateOpts<C extends Capabilities = AllCapabilities> extends CreateSandboxOpts {
  name: string
  /** Runs once, before other callers get the sandbox. If it fails, the sandbox is destroyed. */
  onCreate?: (sandbox: SandboxHandle<C>) => Promise<void> | void
  /** Runs if the sandbox already existed. */
  onResume?: (sandbox: SandboxHandle<C>) => Promise<void> | void
}

export interface ListSandboxesOpts extends CallOptions {
  /** All of these must match. */
  labels?: Readonly<Record<string, string>>
  status?: SandboxStatus | readonly SandboxStatus[]
  name?: string
  /** The page size. */
  limit?: number
  /** `nextCursor` of the previous page. */
  cursor?: string
}

/** An array of infos with a method for the next page. */
export interface SandboxPage extends Array<SandboxInfo> {
  nextCursor?: string
}

/** Facts that are known without waking the sandbox. Unknown facts are undefined. */
export interface SandboxInfo {
  id: string
  sandboxId: string
  status: SandboxStatus
  /** The vendor's own word for the status. */
  rawStatus?: string
  name?: string
  label?: string
  labels: Record<string, string>
  createdAt?: Date
  /** When the sandbox ends, unless its lifetime is extended. */
  expiresAt?: Date
  /** Isolation measures that are missing here but available elsewhere with this provider, as sentences. */
  weaker?: string[]
}

export interface SnapshotInfo {
  snapshotId: string
  name?: string
  createdAt?: Date
  sizeBytes?: number
  /** The sandbox that the snapshot was made from. */
  sandboxId?: string
}

export interface SnapshotAdmin {
  listSnapshots(options?: CallOptions): Promise<SnapshotInfo[]>
  /** Returns false if it does not exist. Sandboxes created from it keep running. */
  deleteSnapshot(snapshotId: string, options?: CallOptions): Promise<boolean>
}
