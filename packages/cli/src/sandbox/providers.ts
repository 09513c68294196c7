import { findPackageJSON } from 'node:module'
import type { ConfiguredProvider } from '@sandkasten/registry'
import { type ProviderKind, requiredSets } from '@sandkasten/sdk/auto'
import { print, table } from '../table.ts'
import { kindsHere, openHere } from './open.ts'

export interface ProviderRow {
  provider: string
  title: string
  state: 'default' | 'ready' | 'not set up'
  label?: string
  settings: Readonly<Record<string, string>>
  /** Names of the secret settings that are stored. */
  secrets: readonly string[]
  /** Flags of `setup`, of which one set is needed. Empty if the provider is ready. */
  missing: ReadonlyArray<readonly string[]>
  /** The vendor's package, if it is not installed beside this command. */
  install?: string
  checkedAt?: Date
}

export async function providers({ json }: { json?: boolean }): Promise<number> {
  await using opened = await openHere()
  const rows = rowsOf(await kindsHere(), await opened.registry.credentials.list())
  print(json, rows, () => tableOf(rows))
  return 0
}

export function rowsOf(
  kinds: readonly ProviderKind[],
  configured: readonly ConfiguredProvider[],
): ProviderRow[] {
  return kinds.map((kind) => {
    const found = configured.find(({ provider }) => provider === kind.provider)
    return {
      provider: kind.provider,
      title: kind.title,
      state: found ? (found.isDefault ? 'default' : 'ready') : 'not set up',
      label: found?.label,
      settings: found?.settings ?? {},
      secrets: found?.secrets ?? [],
      missing: found ? [] : requiredSets(kind).map((set) => set.map((name) => flagOf(kind, name))),
      install: kind.sdk !== undefined && !isInstalled(kind.sdk) ? kind.sdk : undefined,
      checkedAt: found?.checkedAt,
    }
  })
}

export function tableOf(rows: readonly ProviderRow[]): string {
  return table(
    ['PROVIDER', { title: 'IS', min: 12, drop: 1 }, 'STATE', { title: 'NEEDS', min: 16 }],
    rows.map((row) => [row.provider, row.label ?? row.title, row.state, needsOf(row)]),
  )
}

function needsOf({ missing, install }: ProviderRow): string | undefined {
  const settings = missing.map((set) => set.map((flag) => `--${flag}`).join(' ')).join(' or ')
  const all = [settings, install && `npm install ${install}`].filter(Boolean)
  return all.length > 0 ? all.join('; ') : undefined
}

function flagOf({ fields }: ProviderKind, name: string): string {
  return fields.find((field) => field.name === name)!.flag
}

/** Whether the vendor's package is found from here. `@daytona/sdk@0` names the package and its version. */
function isInstalled(sdk: string): boolean {
  try {
    return findPackageJSON(sdk.replace(/@[^@/]*$/, ''), import.meta.url) !== undefined
  } catch {
    return false
  }
}
