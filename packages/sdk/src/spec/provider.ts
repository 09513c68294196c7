import type { AllCapabilities, Capabilities, Parts } from './capabilities.ts'
import type { CallOptions } from './common.ts'
import type { SandboxHandle } from './sandbox.ts'

/** Where sandboxes come from. */
export type SandboxProvider<C extends Capabilities = AllCapabilities> = SandboxProviderCore<C> &
  Parts<C, 'provider'>

export interface SandboxProviderCore<C extends Capabilities = AllCapabilities> {
  readonly name: string
  readonly capabilities: C
  /** What stands between the sandbox and this machine or its neighbours. `none` means none. */
  readonly isolation: Isolation
  /** The options of `create` that this provider honours; any other throws `unsupported`. */
  readonly createOptions: ReadonlySet<CreateOption>

  /** When this rejects, nothing that it made is left. */
  create(options?: CreateSandboxOpts): Promise<SandboxHandle<C>>
  /** By `id` or `sandboxId`. Starts it if it is stopped, unless `resume: false`. Throws `not_found`. */
  get(sandboxId: string, options?: GetSandboxOpts): Promise<SandboxHandle<C>>
  /** The sandbox with this name, created if there is none. Callers that race get the same one. */
  getOrCreate(options: GetOrCreateOpts<C>): Promise<SandboxHandle<C>>
  /** All that match, or with `limit` one page of them. Only sandboxes that were made through this library. */
  list(options?: ListSandboxesOpts): Promise<SandboxPage>
  /** Without waking it. False when there is none. */
  destroy(sandboxId: string, options?: CallOptions): Promise<boolean>
  /** Whether the provider can be used as it is configured: reachable, credentials valid. */
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
  /** The provider says something that we cannot place; `rawStatus` has its word. */
  | 'unknown'

export interface CreateSandboxOpts extends CallOptions {
  /** Unique among live sandboxes of the provider; `conflict` when taken. Makes `getOrCreate` possible. */
  name?: string
  /** For people. */
  label?: string
  /** For `list` to filter by. */
  labels?: Readonly<Record<string, string>>
  /** Set for every command in the sandbox. */
  envVars?: Readonly<Record<string, string>>
  /** How long the sandbox may live; then it is stopped. */
  lifetimeMs?: number
  /** The older name of `lifetimeMs`. */
  timeout?: number
  /** Start from a saved disk. */
  snapshotId?: string
  /** Start from an image, where the provider has images. */
  image?: string
  /** A vendor's name for a kind of image, such as `node24`. */
  runtime?: string
  /** Ports to expose, where the provider must know them beforehand. */
  ports?: readonly number[]
  resources?: SandboxResources
  /** A git repository to clone into the working directory. */
  repo?: string
  /** For a private repository; never written to disk, argv or logs. */
  gitToken?: string
  /** What only one vendor has, under that vendor's own names. */
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
  /** Run once, before anybody else gets the sandbox; when it fails the sandbox is destroyed. */
  onCreate?: (sandbox: SandboxHandle<C>) => Promise<void> | void
  /** Run when the sandbox was there already. */
  onResume?: (sandbox: SandboxHandle<C>) => Promise<void> | void
}

export interface ListSandboxesOpts extends CallOptions {
  /** All of these must match. */
  labels?: Readonly<Record<string, string>>
  status?: SandboxStatus | readonly SandboxStatus[]
  name?: string
  /** A page of at most this many. */
  limit?: number
  /** `nextCursor` of the page before. */
  cursor?: string
}

/** An array of infos that knows how to go on. */
export interface SandboxPage extends Array<SandboxInfo> {
  nextCursor?: string
}

/** What is known without waking the sandbox. Unknown is undefined. */
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
  /** When it ends by itself, unless that is put off. */
  expiresAt?: Date
  /** What keeps it apart less than this provider could elsewhere, in sentences for people. */
  weaker?: string[]
}

export interface SnapshotInfo {
  snapshotId: string
  name?: string
  createdAt?: Date
  sizeBytes?: number
  /** The sandbox that it was made from. */
  sandboxId?: string
}

export interface SnapshotAdmin {
  listSnapshots(options?: CallOptions): Promise<SnapshotInfo[]>
  /** False when there is none. Sandboxes made from it live on. */
  deleteSnapshot(snapshotId: string, options?: CallOptions): Promise<boolean>
}
