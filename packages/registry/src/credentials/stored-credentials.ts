import { randomUUID } from 'node:crypto'
import type { SealedSecrets } from '@sandkasten/database/sealed'
import { type CallOptions, SandboxError } from '@sandkasten/sdk'
import type { ProviderKind, ProviderSettings } from '@sandkasten/sdk/auto'
import { type Kinds, needsNothing, settingsOfEnvironment } from '../providers/kinds.ts'
import { closeProvider, makeProvider } from '../providers/made.ts'
import type { StoredProviders } from '../providers/stored-providers.ts'
import type { ConfiguredProvider, Credentials, SetupOptions } from '../registry.ts'
import { scopeColumns } from '../scope.ts'
import type { ProviderRow, ProviderRows } from '../store/index.ts'
import type { Scope } from '../types.ts'
import { checkProvider } from './check-provider.ts'
import { sealSettings, shown, shownOf } from './stored-settings.ts'

export interface StoredCredentialsOptions {
  readonly rows: ProviderRows
  readonly secrets: SealedSecrets
  readonly providers: StoredProviders
  readonly kinds: Kinds
  readonly env: Readonly<Record<string, string | undefined>>
  readonly now: () => number
}

/** How long `setup` waits for the provider. */
const checkMs = 20_000
const mostTries = 5

/** Calls may interleave, also in several processes: each change is one transaction. */
export class StoredCredentials implements Credentials {
  readonly #options: StoredCredentialsOptions

  constructor(options: StoredCredentialsOptions) {
    this.#options = options
  }

  async list(scope: Scope = {}): Promise<ConfiguredProvider[]> {
    const { rows, providers, kinds, env } = this.#options
    const { app_id } = scopeColumns(scope)
    const stored = await rows.list(app_id)
    const preferred = await providers.defaultOf(app_id)
    const others = kinds.all.flatMap((kind): ConfiguredProvider[] => {
      if (stored.some((row) => row.provider === kind.provider)) return []
      const settings = settingsOfEnvironment(kind, env)
      if (!settings) return []
      const { provider, title } = kind
      return [{ provider, title, isDefault: preferred === provider, ...shown(kind, settings), stored: false }]
    })
    return [...stored.map((row) => this.#describe(row, preferred)), ...others]
  }

  async setup(
    provider: string,
    settings: Readonly<Record<string, string>>,
    options: SetupOptions = {},
  ): Promise<ConfiguredProvider> {
    const { scope, label, makeDefault, check = true, signal, timeoutMs = checkMs } = options
    const { app_id } = scopeColumns(scope)
    const kind = this.#options.kinds.get(provider)
    const checked = await this.#checked(kind, settings, check ? { signal, timeoutMs } : undefined)
    const given = { app_id, label: checkLabel(label), makeDefault, check }
    const row = await this.#options.secrets.replacing('log', () => this.#write(kind, checked, given))
    return this.#describe(row, row.is_default === 1 ? provider : undefined)
  }

  async remove(
    provider: string,
    { scope, force = false }: { scope?: Scope; force?: boolean } = {},
  ): Promise<boolean> {
    const { rows, secrets, providers, kinds } = this.#options
    const { app_id } = scopeColumns(scope)
    const row = await rows.byProvider(app_id, provider)
    if (!row) {
      // A misspelled name is an error, not “nothing was stored”.
      kinds.get(provider)
      return false
    }
    return secrets.replacing('log', async () => {
      const removed = await rows.delete(row.id, { force })
      await providers.forget(row.id)
      return removed
    })
  }

  async setDefault(provider: string, { scope }: { scope?: Scope } = {}): Promise<void> {
    const { rows, kinds } = this.#options
    const { app_id } = scopeColumns(scope)
    if (await rows.setDefault(app_id, provider)) return
    const kind = kinds.get(provider)
    if (needsNothing(kind)) await this.setup(provider, {}, { scope, check: false, makeDefault: true })
    else
      throw new SandboxError('invalid_argument', `The provider “${provider}” is not set up.`, {
        provider,
        hint: {
          sdk: `Store its credentials with setup('${provider}', …) first.`,
          http: 'Set it up first.',
          cli: `Set it up with sandkasten sandbox setup ${provider}.`,
        },
      })
  }

  rotateKey(): Promise<{ keyId: string; values: number }> {
    return this.#options.secrets.rotate()
  }

  /** The settings, after the constructor and the provider have accepted them. */
  async #checked(
    kind: ProviderKind,
    settings: ProviderSettings,
    check: (CallOptions & { timeoutMs: number }) | undefined,
  ): Promise<ProviderSettings> {
    // The caller may change its object while the provider is asked.
    const copy = Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined))
    const provider = makeProvider(kind, copy)
    try {
      if (check) await checkProvider(provider, { ...check, title: kind.title })
    } finally {
      await closeProvider(provider).catch(() => {})
    }
    return copy
  }

  async #write(
    kind: ProviderKind,
    settings: ProviderSettings,
    given: { app_id: string; label?: string; makeDefault?: boolean; check: boolean },
  ): Promise<ProviderRow> {
    const { rows, secrets, now } = this.#options
    const { app_id, makeDefault, check } = given
    const { provider } = kind
    for (let tries = 1; ; tries += 1) {
      const before = await rows.byProvider(app_id, provider)
      const isFirst = makeDefault === undefined && !(await rows.default(app_id))
      const id = before?.id ?? randomUUID()
      try {
        return await secrets.storing(async () =>
          rows.upsert({
            ...(await sealSettings(secrets, { id, app_id, provider }, settings, kind)),
            id,
            app_id,
            provider,
            label: given.label ?? before?.label ?? null,
            is_default: makeDefault || isFirst ? 1 : 0,
            created_at: before?.created_at ?? now(),
            updated_at: now(),
            checked_at: check ? now() : null,
          }),
        )
      } catch (error) {
        // Another process has stored the same provider first; then this call replaces that.
        if (!SandboxError.is(error, 'conflict') || tries === mostTries) throw error
      }
    }
  }

  #describe(row: ProviderRow, preferred: string | undefined): ConfiguredProvider {
    const { provider, label, checked_at } = row
    return {
      provider,
      title: this.#options.kinds.find(provider)?.title ?? provider,
      ...(label !== null && { label }),
      isDefault: preferred === provider,
      ...shownOf(row),
      ...(checked_at !== null && { checkedAt: new Date(checked_at) }),
      stored: true,
    }
  }
}

function checkLabel(label: string | undefined): string | undefined {
  if (label === undefined || (typeof label === 'string' && /^[^\p{Cc}]{1,200}$/u.test(label))) return label
  throw new SandboxError('invalid_argument', '`label` must be 1 to 200 printable characters.')
}
