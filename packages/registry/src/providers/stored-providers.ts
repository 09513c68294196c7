import { SandboxError, type SandboxProvider } from '@sandkasten/sdk'
import {
  detectProvider,
  type ProviderContext,
  type ProviderKind,
  type ProviderSettings,
} from '@sandkasten/sdk/auto'
import type { ChosenProvider, Providers } from '../context.ts'
import { scopeColumns } from '../scope.ts'
import type { ProviderRow, ProviderRows, SandboxRow } from '../store/index.ts'
import type { Scope } from '../types.ts'
import { type Kinds, needsNothing, settingsOfEnvironment, variablesOf } from './kinds.ts'
import { MadeProviders } from './made.ts'

export interface ProvidersOptions {
  readonly rows: ProviderRows
  /** Decrypts the settings of a row. */
  readonly settingsOf: (row: ProviderRow) => Promise<ProviderSettings>
  readonly kinds: Kinds
  readonly env: Readonly<Record<string, string | undefined>>
  /** Whether live sandboxes of the registry are at this provider. */
  readonly isUsed: (provider: string) => Promise<boolean>
  /** Used when none is set up and the environment selects none. */
  readonly defaultProvider?: string
  /** What each provider gets besides its settings. */
  readonly context?: ProviderContext
}

/**
 * Which provider is used, in this order: the named one, the stored default, the one that the environment selects,
 * `defaultProvider`. Which credentials it gets: stored ones, those of the environment, none if it needs none.
 */
export class StoredProviders implements Providers {
  readonly #options: ProvidersOptions
  readonly #made: MadeProviders

  constructor(options: ProvidersOptions) {
    this.#options = options
    this.#made = new MadeProviders(options.context)
    if (options.defaultProvider !== undefined) options.kinds.get(options.defaultProvider)
  }

  async choose(scope: Scope, provider?: string): Promise<ChosenProvider> {
    const { app_id } = scopeColumns(scope)
    const name = provider ?? (await this.defaultOf(app_id))
    if (name === undefined)
      throw new SandboxError('invalid_argument', 'No provider is set up.', {
        hint: {
          sdk: 'Set one up with registry.credentials.setup(), or pass `provider`.',
          http: 'Set a provider up first.',
          cli: 'Set one up with sandkasten sandbox setup, or pass --provider.',
        },
      })
    const kind = this.#options.kinds.get(name)
    const row = await this.#options.rows.byProvider(app_id, name)
    if (row) return { provider: await this.#ofRow(row, kind), credentialsId: row.id, row }
    const without = await this.#ofEnvironment(kind)
    if (without) return { provider: without, credentialsId: null }
    throw notSetUp(kind, 'invalid_argument', `The provider “${name}” is not set up.`)
  }

  /** The name of the provider that `choose` takes without a name. */
  async defaultOf(appId: string): Promise<string | undefined> {
    const stored = await this.#options.rows.default(appId)
    if (stored) return stored.provider
    const { provider, decidedBy, reason } = detectProvider(this.#options.env)
    // A name in a variable was a decision, also if it is misspelled.
    const named = decidedBy.length === 1 && decidedBy[0] === 'SANDKASTEN_PROVIDER'
    if (named && provider === undefined)
      throw new SandboxError('unsupported', reason, { hint: 'Set SANDKASTEN_PROVIDER to another provider.' })
    if (provider !== undefined && (named || this.#options.kinds.find(provider))) return provider
    return this.#options.defaultProvider
  }

  async of({
    name,
    app_id,
    provider,
    credentials_id,
  }: Pick<SandboxRow, 'name' | 'app_id' | 'provider' | 'credentials_id'>): Promise<SandboxProvider> {
    const { rows, kinds } = this.#options
    const kind = kinds.get(provider)
    const row = credentials_id === null ? undefined : await rows.byId(credentials_id)
    if (row) return this.#ofRow(row, kind)
    const made = credentials_id === null && (await this.#ofEnvironment(kind))
    if (made) return made
    // Set up again after it was removed, or set up after the variables were unset.
    const again = await rows.byProvider(app_id, provider)
    if (again) return this.#ofRow(again, kind)
    throw notSetUp(
      kind,
      'unauthenticated',
      credentials_id === null
        ? `The provider “${provider}” of “${name}” is not set up in this environment.`
        : `The credentials of “${name}” at “${provider}” were removed.`,
    )
  }

  check(provider: string): void {
    this.#options.kinds.get(provider)
  }

  /**
   * With `onError`, a provider that cannot be constructed is reported and left out. Of the providers that need no
   * settings, only those that are used: some warn when they are constructed.
   */
  async all(onError?: (provider: string, error: unknown) => void): Promise<ChosenProvider[]> {
    const { rows, kinds, isUsed } = this.#options
    const stored = (await rows.list()).map((row) => ({ name: row.provider, row }))
    const others = kinds.all.map(({ provider }) => ({ name: provider, row: undefined }))
    const chosen = await Promise.all(
      [...stored, ...others].map(async ({ name, row }): Promise<ChosenProvider | undefined> => {
        try {
          const kind = kinds.get(name)
          if (row) return { provider: await this.#ofRow(row, kind), credentialsId: row.id, row }
          if (needsNothing(kind) && !(await isUsed(name))) return undefined
          const provider = await this.#ofEnvironment(kind)
          return provider && { provider, credentialsId: null }
        } catch (error) {
          if (!onError) throw error
          onError(name, error)
          return undefined
        }
      }),
    )
    return chosen.filter((one) => one !== undefined)
  }

  /** The credentials were removed: the next use of them fails. */
  forget(credentialsId: string): Promise<void> {
    return this.#made.forget(`row ${credentialsId}`)
  }

  /** Closes the connections of all providers that were constructed. */
  close(): Promise<void> {
    return this.#made.close()
  }

  #ofRow(row: ProviderRow, kind: ProviderKind): Promise<SandboxProvider> {
    // Every write encrypts with a new nonce, so the text is a version of the row.
    return this.#made.get(`row ${row.id}`, row.api_key, kind, () => this.#options.settingsOf(row))
  }

  async #ofEnvironment(kind: ProviderKind): Promise<SandboxProvider | undefined> {
    const settings = settingsOfEnvironment(kind, this.#options.env)
    return settings && this.#made.get(`environment ${kind.provider}`, '', kind, () => settings)
  }
}

function notSetUp(
  kind: ProviderKind,
  code: 'invalid_argument' | 'unauthenticated',
  message: string,
): SandboxError {
  const variables = variablesOf(kind)
  const or = variables.length > 0 ? `, or set ${variables.join(' and ')}` : ''
  return new SandboxError(code, message, {
    provider: kind.provider,
    hint: {
      sdk: `Set it up with registry.credentials.setup('${kind.provider}', …)${or}.`,
      http: 'Set the provider up first.',
      cli: `Set it up with sandkasten sandbox setup ${kind.provider}${or}.`,
    },
  })
}
