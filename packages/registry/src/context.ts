import type { SandboxProvider } from '@sandkasten/sdk'
import type { Leases } from './leases/index.ts'
import type { ProviderRow, SandboxRow, ScopeKey, Store } from './store/index.ts'
import type { Scope, Use } from './types.ts'

/** What the rooms of the registry share. */
export interface Context {
  /** Random, made with the database: sandboxes at a provider carry it as a label. */
  readonly registryId: string
  readonly store: Store
  readonly leases: Leases
  readonly providers: Providers
  readonly secrets: Secrets
  /** Runs work whose requests of providers may use the secrets of this scope. Implemented in `credentials/`. */
  readonly withSecretsOf: <T>(scope: ScopeKey, work: () => Promise<T>) => Promise<T>
  readonly uses: SandboxUses
  readonly limits: Limits
  readonly timeouts: Timeouts
  /** Milliseconds since 1970, only for what people read and for due times; leases use a steady clock. */
  readonly now: () => number
}

/** What uses a sandbox right now. Implemented in `work/`. */
export interface SandboxUses {
  /** Without the uses of `threadId`. */
  of(sandbox: { readonly id: string }, options?: { threadId?: string }): Promise<Use[]>
}

export interface Limits {
  /** Live sandboxes of one app and guild. Default 100. */
  readonly perGuild: number
  /** Live sandboxes of one channel. Default 20. */
  readonly perChannel: number
}

/** How long the registry waits for a provider. A caller's `timeoutMs` or signal can only shorten this. */
export interface Timeouts {
  /** One question about a sandbox or a list of them. Default 30 s. */
  readonly lookMs: number
  /** One change: create, start, stop, snapshot, destroy. Default 10 minutes. */
  readonly changeMs: number
  /** Until a sandbox is in a status that the registry can act on, or runs. Default 2 minutes. */
  readonly settleMs: number
  /** Cleaning up after a failure, and how long a cancelled change may take to undo itself. Default 30 s. */
  readonly cleanUpMs: number
}

/** Providers with their stored credentials. Implemented in `providers/`. */
export interface Providers {
  /** The named provider, or the scope's default. Throws `not_found` with suggestions, and `invalid_argument` if it is not set up. */
  choose(scope: Scope, provider?: string): Promise<ChosenProvider>
  /** Throws `not_found` with suggestions if there is no such provider, set up or not. */
  check(provider: string): void
  /** The provider that this sandbox is at. Throws `unauthenticated` if its credentials were removed. */
  of(row: Pick<SandboxRow, 'name' | 'app_id' | 'provider' | 'credentials_id'>): Promise<SandboxProvider>
  /**
   * Every provider that is set up, with its credentials, and those in use that need none. For reconciliation. With `onError`,
   * a provider that cannot be constructed is reported and left out.
   */
  all(onError?: (provider: string, error: unknown) => void): Promise<ChosenProvider[]>
}

export interface ChosenProvider {
  readonly provider: SandboxProvider
  readonly credentialsId: string | null
  readonly row?: ProviderRow
}

/** Encrypts what the database must not reveal. Implemented in `credentials/`. */
export interface Secrets {
  /** `place` names the row and column, and is authenticated: a value moved to another row does not open. */
  seal(text: string, place: Place): Promise<string>
  open(sealed: string, place: Place): Promise<string>
  /**
   * Runs `work`, which seals values and writes them. The database refuses a value whose key was rotated in between; then
   * `work` runs again.
   */
  storing<T>(work: () => Promise<T>): Promise<T>
}

export interface Place {
  readonly table: 'sandboxes' | 'sandbox_providers' | 'sandbox_secrets'
  readonly column: string
  readonly row: string
}

/** Labels of our sandboxes at their provider. */
export const labels = {
  /** The registry's id: another registry on the same account has another one. */
  registry: 'sandkasten-registry',
  /** The row's id. */
  sandbox: 'sandkasten-sandbox',
  /** The lease token of the operation that created it: only the newest one belongs to the row. */
  attempt: 'sandkasten-lease',
} as const
