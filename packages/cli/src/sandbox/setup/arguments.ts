import { parseArgs } from 'node:util'
import { suggest } from '@sandkasten/registry'
import { SandboxError } from '@sandkasten/sdk'
import type { ProviderKind } from '@sandkasten/sdk/auto'

export interface SetupArguments {
  readonly provider?: string
  /** By the names of the fields. */
  readonly settings: Readonly<Record<string, string>>
  readonly flags: ReadonlySet<Flag>
  readonly label?: string
}

export const switches = {
  list: 'list the providers that are set up',
  remove: 'forget the stored settings of the provider',
  force: 'with --remove: also while sandboxes need them',
  default: 'use the provider when none is named',
  'rotate-key': 'encrypt everything that is stored with a new key',
  stdin: 'read settings from stdin: one secret, JSON, or NAME=value lines',
  'no-check': 'do not ask the provider whether the settings work',
  json: 'for programs; asks nothing',
  yes: 'ask nothing',
  help: 'this help',
} as const

export type Flag = keyof typeof switches

/**
 * The arguments of `setup`. The flags of a provider come from its row in the table. Errors never quote a value or an
 * unexpected word: it may be a secret.
 */
export function parseSetup(args: readonly string[], kinds: readonly ProviderKind[]): SetupArguments {
  const fields = [...new Set(kinds.flatMap((kind) => kind.fields.map(({ flag }) => flag)))]
  const texts = ['label', ...fields]
  const options = Object.fromEntries([
    ...Object.keys(switches).map((name) => [name, { type: 'boolean' as const }]),
    ...texts.map((name) => [name, { type: 'string' as const }]),
    ['help', { type: 'boolean' as const, short: 'h' }],
    ['yes', { type: 'boolean' as const, short: 'y' }],
  ])
  const { tokens } = parseArgs({
    args: [...args],
    options,
    strict: false,
    allowPositionals: true,
    tokens: true,
  })
  const words: string[] = []
  const values = new Map<string, string>()
  const flags = new Set<Flag>()
  for (const token of tokens) {
    if (token.kind === 'positional') words.push(token.value)
    if (token.kind !== 'option') continue
    if (Object.hasOwn(switches, token.name)) flags.add(token.name as Flag)
    else if (!texts.includes(token.name))
      throw unknownFlag(token.rawName, [...texts, ...Object.keys(switches)])
    else if (token.value === undefined || (!token.inlineValue && token.value.startsWith('--')))
      throw invalid(
        `--${token.name} needs a value.`,
        `Write --${token.name} VALUE, or --${token.name}=VALUE.`,
      )
    else values.set(token.name, token.value)
  }
  if (words.length > 1)
    throw invalid(
      'More than one provider is given.',
      'Name one provider, and pass its settings as --NAME VALUE.',
    )
  const label = values.get('label')
  values.delete('label')
  const provider = words[0]
  return { provider, label, flags, settings: byField(kindOf(provider, kinds), values) }
}

/** The row of the provider. Undefined without a name. */
export function kindOf(
  provider: string | undefined,
  kinds: readonly ProviderKind[],
): ProviderKind | undefined {
  const kind = kinds.find((one) => one.provider === provider)
  if (kind || provider === undefined) return kind
  const names = kinds.map((one) => one.provider)
  const near = suggest(provider, names)
  const shown = /^[a-z][a-z0-9-]{0,30}$/.test(provider) ? `“${provider}”` : 'of that name'
  throw new SandboxError('not_found', `There is no provider ${shown}.`, {
    hint: near.length > 0 ? `Did you mean ${near.join(' or ')}?` : `Use one of ${names.join(', ')}.`,
  })
}

function byField(
  kind: ProviderKind | undefined,
  values: ReadonlyMap<string, string>,
): Record<string, string> {
  const settings: Record<string, string> = {}
  for (const [flag, value] of values) {
    if (!kind) throw invalid(`--${flag} needs a provider.`, 'Name it: sandkasten sandbox setup PROVIDER.')
    const field = kind.fields.find((one) => one.flag === flag)
    if (!field)
      throw invalid(
        `The provider ${kind.provider} has no --${flag}.`,
        kind.fields.length === 0
          ? 'It takes no settings.'
          : `It takes: ${kind.fields.map((one) => `--${one.flag}`).join(', ')}.`,
      )
    settings[field.name] = value
  }
  return settings
}

function unknownFlag(raw: string, known: readonly string[]): SandboxError {
  const name = /^--?([a-z][a-z-]{0,30})$/.exec(raw)?.[1]
  if (name === undefined)
    return invalid('There is an unknown option.', 'See sandkasten sandbox setup --help.')
  const near = suggest(name, known)
  const hint =
    near.length > 0 ? `Did you mean --${near.join(' or --')}?` : 'See sandkasten sandbox setup --help.'
  return invalid(`There is no option ${raw}.`, hint)
}

export function invalid(message: string, hint: string): SandboxError {
  return new SandboxError('invalid_argument', message, { hint })
}
