import type { Capabilities, Part } from './capabilities.ts'
import type { CallOptions, Environment } from './common.ts'
import type { Network } from './network.ts'
import type { SandboxHandle } from './sandbox.ts'

/** Creates, finds and lists sandboxes. Without a type argument it holds any provider. */
export type SandboxProvider<C extends Capabilities = Capabilities> = SandboxProviderCore<C> &
  Part<C, 'snapshot', 'provider'>

export interface SandboxProviderCore<C extends Capabilities = Capabilities> {
  readonly name: string
  readonly capabilities: C
  /** What isolates the sandbox from this machine and from other sandboxes. `none`: no isolation. */
  readonly isolation: Isolation
  /** The supported options of `create`. Other options throw `unsupported`. */
  readonly createOptions: ReadonlySet<CreateOption>
  /**
   * Whether `snapshot()` and `fork()` of a running sandbox restart it: its programs end. The handle that called it is
   * bound to the new start, other handles throw `interrupted`. If false, programs and handles are not affected.
   */
  readonly snapshotInterrupts: boolean

  /** If this rejects, everything that it created has been removed. */
  create(options?: CreateSandboxOpts): Promise<SandboxHandle<C>>
  /**
   * Takes `id`, `sandboxId` or `{ name }`. Starts a stopped sandbox unless `resume: false`. Throws `not_found`, and
   * `unsupported` for a name if the provider has no names.
   */
  get(sandbox: string | SandboxByName, options?: GetSandboxOpts): Promise<SandboxHandle<C>>
  /** Returns the sandbox with this name and creates it if needed. Concurrent callers get the same sandbox. */
  getOrCreate(options: GetOrCreateOpts<C>): Promise<SandboxHandle<C>>
  /**
   * Lists all matching sandboxes, or one page of them if `limit` is given. Only sandboxes created through this
   * library.
   */
  list(options?: ListSandboxesOpts): Promise<SandboxPage>
  /**
   * Like `list`, with handles instead of infos. Wakes no sandbox: the handle of a stopped sandbox throws `not_running`
   * until `start()`. Leaves out sandboxes that are being created or have failed.
   */
  listHandles(options?: ListSandboxesOpts): Promise<HandlePage<C>>
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
  /** Set for every command in the sandbox. Variables that are `undefined` are ignored. */
  envVars?: Environment
  /** The maximum lifetime. The sandbox is stopped afterwards. */
  lifetimeMs?: number
  /** The older name of `lifetimeMs`. */
  timeout?: number
  /** Start from this snapshot. */
  snapshotId?: string
  /** Start from this image, if the provider has images. */
  image?: string
  /**
   * A program and the beginning of its version. The sandbox has it, or `create` throws `unsupported` with the runtimes
   * that the provider has. Not together with `image` or `snapshotId`.
   */
  runtime?: KnownRuntime | (string & {})
  /** Ports to expose; `handle.ports` returns them. Only some providers must know them at creation. */
  ports?: readonly number[]
  resources?: SandboxResources
  /**
   * The user of commands and files. `root`: root of the sandbox, so that `apt-get install` works. Default: the user of
   * the image or of the provider.
   */
  user?: SandboxUser
  /**
   * What the sandbox may reach. A policy needs the ability `egress`. Default: the provider's own, which `docs/providers.md`
   * lists.
   */
  network?: Network
  /** A git repository to clone into the working directory. */
  repo?: string
  /** For a private repository; never written to disk, argv or logs. */
  gitToken?: string
  /** Options of a single vendor, under that vendor's names. */
  providerOptions?: Readonly<Record<string, unknown>>
}

export type SandboxUser = 'root'

/** Names that editors suggest. A provider may have others. */
export type KnownRuntime = 'node24' | 'node22' | 'python3.13'

export type CreateOption = Exclude<keyof CreateSandboxOpts, 'signal' | 'timeout'>

export interface SandboxResources {
  vcpus?: number
  memoryMb?: number
  diskMb?: number
}

export interface SandboxByName {
  readonly name: string
}

export interface GetSandboxOpts extends CallOptions {
  /** Default true. */
  resume?: boolean
}

export interface GetOrCreateOpts<C extends Capabilities = Capabilities> extends CreateSandboxOpts {
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

/** An array of handles with the cursor of the next page. */
export interface HandlePage<C extends Capabilities = Capabilities> extends Array<SandboxHandle<C>> {
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
