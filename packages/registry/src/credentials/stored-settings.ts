import { unreadable } from '@sandkasten/database/sealed'
import { SandboxError } from '@sandkasten/sdk'
import type { ProviderKind, ProviderSettings } from '@sandkasten/sdk/auto'
import type { Secrets } from '../context.ts'
import type { ProviderRow } from '../store/index.ts'

type RowKey = Pick<ProviderRow, 'id' | 'app_id' | 'provider'>

/** What a list shows: the fields that are not secret, and the names of those that are. */
export interface ShownSettings {
  readonly settings: ProviderSettings
  readonly secrets: readonly string[]
}

/**
 * The columns of a row for these settings. `api_key` has all settings, with the app and the provider: a person who can
 * write to the database, but lacks the key, cannot send a credential to another address. `config_json` is for lists.
 */
export async function sealSettings(
  secrets: Secrets,
  { id, app_id, provider }: RowKey,
  settings: ProviderSettings,
  kind: ProviderKind,
): Promise<Pick<ProviderRow, 'api_key' | 'config_json'>> {
  const text = JSON.stringify({ app_id, provider, settings } satisfies Sealed)
  return {
    api_key: await secrets.seal(text, placeOf(id)),
    config_json: JSON.stringify(shown(kind, settings)),
  }
}

/** Throws `unauthenticated` if the row was changed. */
export async function openSettings(
  secrets: Secrets,
  { id, app_id, provider, api_key }: RowKey & Pick<ProviderRow, 'api_key'>,
): Promise<ProviderSettings> {
  const sealed = JSON.parse(await secrets.open(api_key, placeOf(id))) as Sealed
  if (sealed.app_id !== app_id || sealed.provider !== provider) throw unreadable(placeOf(id))
  return sealed.settings
}

export function shown({ fields }: ProviderKind, settings: ProviderSettings): ShownSettings {
  const secret = new Set(fields.filter((field) => field.secret).map(({ name }) => name))
  const entries = Object.entries(settings)
  return {
    settings: Object.fromEntries(entries.filter(([name]) => !secret.has(name))),
    secrets: entries.map(([name]) => name).filter((name) => secret.has(name)),
  }
}

/** The settings of a row for a list; decrypts nothing. */
export function shownOf({
  config_json,
  provider,
}: Pick<ProviderRow, 'config_json' | 'provider'>): ShownSettings {
  try {
    const { settings, secrets } = JSON.parse(config_json) as ShownSettings
    return { settings: { ...settings }, secrets: [...secrets] }
  } catch (cause) {
    throw new SandboxError('internal', `The stored settings of “${provider}” are damaged.`, {
      cause,
      hint: `Set up ${provider} again.`,
    })
  }
}

interface Sealed {
  readonly app_id: string
  readonly provider: string
  readonly settings: ProviderSettings
}

function placeOf(row: string) {
  return { table: 'sandbox_providers', column: 'api_key', row } as const
}
