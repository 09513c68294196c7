import { type ProviderKind, requiredSets } from '@sandkasten/sdk/auto'
import { widthOf, wrap } from '../../format.ts'
import { switches } from './arguments.ts'

const usage = `Usage: sandkasten sandbox setup PROVIDER [options]

Set up a provider. The settings are checked with the provider, and stored encrypted.
A secret is best typed when asked, piped with --stdin, or taken from its variable.`

/** The help of one provider, or of all. */
export function helpOf(kinds: readonly ProviderKind[], kind: ProviderKind | undefined): string {
  const own = Object.entries(switches).map(([name, text]) => [`--${name}`, text] as const)
  const options = [...own, ['--label <text>', 'a name for these settings, for people'] as const]
  const providers = (kind ? [kind] : kinds).map(sectionOf)
  return wrap(
    `${usage}\n\nOptions:\n${columns(options)}\n\n${providers.join('\n\n')}`,
    widthOf(process.stdout),
  )
}

function sectionOf(kind: ProviderKind): string {
  const sets = requiredSets(kind).map((set) => set.map((name) => flagOf(kind, name)))
  const needs = sets.map((set) => set.join(' ')).join(', or ')
  const head = `${kind.provider}: ${kind.title}${needs ? `; needs ${needs}` : '; needs no settings'}`
  const rows = kind.fields.map(
    ({ flag, description, variable }) =>
      [`--${flag} <value>`, `${description}${variable ? ` [${variable}]` : ''}`] as const,
  )
  return rows.length > 0 ? `${head}\n${columns(rows)}` : head
}

function flagOf({ fields }: ProviderKind, name: string): string {
  return `--${fields.find((field) => field.name === name)!.flag}`
}

function columns(rows: ReadonlyArray<readonly [string, string]>): string {
  const width = Math.max(...rows.map(([name]) => name.length))
  return rows.map(([name, text]) => `  ${name.padEnd(width)}  ${text}`).join('\n')
}
