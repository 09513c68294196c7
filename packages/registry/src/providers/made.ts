import { createHash } from 'node:crypto'
import type { SandboxProvider } from '@sandkasten/sdk'
import type { ProviderContext, ProviderKind, ProviderSettings } from '@sandkasten/sdk/auto'
import { redactor } from './redact.ts'
import { redacting } from './redacting.ts'

/** Constructs a provider whose errors, and whose constructor's errors, contain none of the secret settings. */
export function makeProvider(
  kind: ProviderKind,
  settings: ProviderSettings,
  context: ProviderContext = {},
): SandboxProvider {
  const secrets = kind.fields.flatMap(({ name, secret }) => (secret ? (settings[name] ?? []) : []))
  if (secrets.length === 0) return kind.make(settings, context)
  const redact = redactor(secrets)
  try {
    return redacting(kind.make(settings, context), redact)
  } catch (error) {
    throw redact.error(error)
  }
}

interface Made {
  readonly fingerprint: string
  readonly provider: SandboxProvider
}

/** One provider for each set of credentials, constructed on first use. */
export class MadeProviders {
  readonly #made = new Map<string, { version: string; made: Promise<Made> }>()
  /** Replaced, but sandboxes of this process may still use them. */
  readonly #retired: SandboxProvider[] = []
  readonly #context: ProviderContext

  constructor(context: ProviderContext = {}) {
    this.#context = context
  }

  /**
   * The provider of `key`. When `version` differs from the last call's, the settings are read again. If they changed, a
   * new provider is constructed.
   */
  async get(
    key: string,
    version: string,
    kind: ProviderKind,
    settingsOf: () => ProviderSettings | Promise<ProviderSettings>,
  ): Promise<SandboxProvider> {
    const before = this.#made.get(key)
    if (before?.version === version) return (await before.made).provider
    const made = this.#make(before?.made, kind, settingsOf)
    const entry = { version, made }
    this.#made.set(key, entry)
    try {
      return (await made).provider
    } catch (error) {
      if (this.#made.get(key) === entry) this.#made.delete(key)
      throw error
    }
  }

  async forget(key: string): Promise<void> {
    const made = await this.#made.get(key)?.made.catch(() => undefined)
    this.#made.delete(key)
    if (made) this.#retired.push(made.provider)
  }

  async close(): Promise<void> {
    const made = await Promise.allSettled([...this.#made.values()].map((one) => one.made))
    const providers = made.flatMap((one) => (one.status === 'fulfilled' ? [one.value.provider] : []))
    this.#made.clear()
    await Promise.all([...providers, ...this.#retired.splice(0)].map(closeProvider))
  }

  async #make(
    before: Promise<Made> | undefined,
    kind: ProviderKind,
    settingsOf: () => ProviderSettings | Promise<ProviderSettings>,
  ): Promise<Made> {
    const settings = await settingsOf()
    const fingerprint = createHash('sha256').update(JSON.stringify(settings)).digest('hex')
    const earlier = await before?.catch(() => undefined)
    if (earlier?.fingerprint === fingerprint) return earlier
    const provider = makeProvider(kind, settings, this.#context)
    if (earlier) this.#retired.push(earlier.provider)
    return { fingerprint, provider }
  }
}

/** Some providers hold connections. */
export async function closeProvider(provider: SandboxProvider): Promise<void> {
  await (provider as Partial<AsyncDisposable>)[Symbol.asyncDispose]?.()
}
