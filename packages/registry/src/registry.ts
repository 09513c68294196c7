import type { CallOptions, Network } from '@sandkasten/sdk'
import type {
  CreateOptions,
  DeleteSnapshotOptions,
  DestroyResult,
  Hold,
  HoldOptions,
  InterruptingOptions,
  ListOptions,
  NamedSandbox,
  NamedSnapshot,
  OperationOptions,
  ReconcileReport,
  SandboxRecord,
  Scope,
  SnapshotListOptions,
  WorkReport,
} from './types.ts'

/** The public face. `openRegistry(options)` makes it; see `context.ts` for what the rooms share. */
export interface Registry extends AsyncDisposable {
  readonly id: string
  /** Sandboxes of one scope. Without arguments: the command line's. */
  in(scope?: Scope): ScopedRegistry
  /** Setting up providers. */
  readonly credentials: Credentials
  /** Values of the secrets that network policies name. */
  readonly secrets: SandboxSecrets
  /** Does all work that is due now, in every scope: keeps promises of processes that are gone. */
  doDueWork(options?: CallOptions): Promise<WorkReport>
  /** `doDueWork` in a loop until the signal fires. */
  work(options: CallOptions & { onReport?: (report: WorkReport) => void }): Promise<void>
  /** Whether a process runs `work`. Without one, due work is done only by calls of `doDueWork`. */
  hasWorker(): Promise<boolean>
  /** Compares rows with what the providers have, in both directions. */
  reconcile(options?: CallOptions & { provider?: string }): Promise<ReconcileReport>
  close(): Promise<void>
}

export interface ScopedRegistry {
  readonly scope: Scope
  create(options?: CreateOptions): Promise<NamedSandbox>
  /** The record, without asking the provider. Throws `not_found` with similar names. */
  get(name: string, options?: CallOptions): Promise<SandboxRecord>
  list(options?: ListOptions): Promise<SandboxRecord[]>
  /** The running sandbox: used as it is, started, or restored from its last snapshot. */
  resume(name: string, options?: OperationOptions): Promise<NamedSandbox>
  /** The same as `resume`. */
  start(name: string, options?: OperationOptions): Promise<NamedSandbox>
  stop(name: string, options?: InterruptingOptions): Promise<SandboxRecord>
  snapshot(
    name: string,
    options?: InterruptingOptions & { snapshotName?: string },
  ): Promise<{ snapshotId: string }>
  /**
   * Replaces what the sandbox may reach, and keeps it for starts and restores. A running sandbox has it at once, where
   * the provider has the ability `egress`; without it, this throws `unsupported`.
   */
  setNetwork(name: string, network: Network, options?: OperationOptions): Promise<SandboxRecord>
  /** All snapshots at a provider, also those of sandboxes that are gone. */
  listSnapshots(options?: SnapshotListOptions): Promise<NamedSnapshot[]>
  /** False: it did not exist. */
  deleteSnapshot(snapshotId: string, options?: DeleteSnapshotOptions): Promise<boolean>
  /** Names threads that use it in `conflict`, unless `force`. */
  destroy(name: string, options?: InterruptingOptions): Promise<DestroyResult>
  rename(name: string, newName: string): Promise<SandboxRecord>
  attach(threadId: string, name: string): Promise<SandboxRecord>
  /** False: it was not attached. */
  detach(threadId: string): Promise<boolean>
  /** The sandbox that the thread is attached to. */
  ofThread(threadId: string): Promise<SandboxRecord | undefined>
  touch(name: string): Promise<void>
  /** Resumes the sandbox and keeps it alive until the hold is released. */
  hold(name: string, options?: HoldOptions): Promise<Hold>
  /** Stores or reads the password of an opencode server in the sandbox, encrypted. */
  setOpencodePassword(name: string, password: string): Promise<void>
  opencodePassword(name: string): Promise<string | undefined>
  setBaseUrl(name: string, baseUrl: string | undefined): Promise<void>
}

/**
 * Secrets of a scope, which its sandboxes use by name: `secret('github')` in the headers of a network policy. They are
 * encrypted, and no method returns a value.
 */
export interface SandboxSecrets {
  list(scope?: Scope): Promise<StoredSecret[]>
  /** Adds the secret or replaces its value, also in running sandboxes that use it. */
  put(name: string, value: string, options?: SecretOptions): Promise<StoredSecret & SecretChange>
  delete(name: string, options?: SecretOptions): Promise<SecretChange & { readonly existed: boolean }>
}

export interface StoredSecret {
  readonly name: string
  /** Counts the values that it had. */
  readonly version: number
  readonly createdAt: Date
  readonly updatedAt: Date
}

export interface SecretOptions {
  readonly scope?: Scope
}

/** Which sandboxes a change of a secret has reached. */
export interface SecretChange {
  readonly sandboxes: readonly string[]
  /** These may still use the earlier value, until their network is set again. */
  readonly failed: ReadonlyArray<{ readonly sandbox: string; readonly error: unknown }>
}

export interface ConfiguredProvider {
  readonly provider: string
  readonly title: string
  readonly label?: string
  readonly isDefault: boolean
  /** Fields that are not secret, with their values. */
  readonly settings: Readonly<Record<string, string>>
  /** Names of the secret fields that are set. */
  readonly secrets: readonly string[]
  readonly checkedAt?: Date
  /** False: works without setup. */
  readonly stored: boolean
}

export interface SetupOptions extends CallOptions {
  scope?: Scope
  label?: string
  /** Default: true if the scope's app has no default yet. */
  makeDefault?: boolean
  /** False: store without asking the provider. Default true. */
  check?: boolean
  /** How long to wait for the provider. Default 20 s. */
  timeoutMs?: number
}

export interface Credentials {
  list(scope?: Scope): Promise<ConfiguredProvider[]>
  /**
   * Checks the credentials with the provider's `healthCheck`, then stores them encrypted. Replaces earlier ones of the
   * same provider; sandboxes use the new ones then.
   */
  setup(
    provider: string,
    settings: Readonly<Record<string, string>>,
    options?: SetupOptions,
  ): Promise<ConfiguredProvider>
  /** Refuses while live sandboxes need them, unless `force`. False: nothing was stored. */
  remove(provider: string, options?: { scope?: Scope; force?: boolean }): Promise<boolean>
  setDefault(provider: string, options?: { scope?: Scope }): Promise<void>
  /** Encrypts everything with a new key, in one transaction. */
  rotateKey(): Promise<{ keyId: string; values: number }>
}
