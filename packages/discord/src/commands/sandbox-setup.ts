import { suggest } from '@sandkasten/registry'
import { SandboxError } from '@sandkasten/sdk'
import { type ProviderKind, requiredSets } from '@sandkasten/sdk/auto'
import { shortened } from '../show/escape.ts'
import { type FormCommand, type FormField, option } from './command.ts'

/** What Discord accepts in one form. */
const mostFields = 5

/** A form with the settings of a provider. Its values go to the registry, and nowhere else; see `controls`. */
export const sandboxSetup: FormCommand = {
  definition: {
    name: 'sandbox-setup',
    description: 'Set up a provider of sandboxes for this bot.',
    options: [option('provider', 'The provider', { required: true, autocomplete: true, max_length: 40 })],
  },
  right: 'setup',
  reply: 'form',
  target: (call) => call.text('provider'),
  async form(call, { kinds }) {
    const kind = kindOf(call.text('provider') ?? '', kinds)
    if (kind.fields.length === 0)
      throw new SandboxError('invalid_argument', `${kind.title} needs no settings.`, {
        hint: 'Use it right away: /sandbox.',
      })
    return {
      id: `setup:${kind.provider}`,
      title: shortened(`Set up ${kind.title}`, 45),
      fields: fieldsOf(kind).shown,
    }
  },
}

export function kindOf(provider: string, kinds: readonly ProviderKind[]): ProviderKind {
  const kind = kinds.find((one) => one.provider === provider)
  if (kind) return kind
  const names = kinds.map((one) => one.provider)
  const near = suggest(provider, names)
  throw new SandboxError('not_found', 'There is no such provider.', {
    hint: near.length > 0 ? `Did you mean ${near.join(' or ')}?` : `Use one of ${names.join(', ')}.`,
  })
}

/** The fields that a form has room for: required ones first. The others are set on the command line. */
export function fieldsOf(kind: ProviderKind): { shown: FormField[]; others: string[] } {
  const sets = requiredSets(kind)
  const rank = (name: string) => (sets[0]!.includes(name) ? 0 : sets.flat().includes(name) ? 1 : 2)
  const sorted = kind.fields.toSorted((a, b) => rank(a.name) - rank(b.name))
  const shown = sorted.slice(0, mostFields).map(({ name, flag, description, format }) => ({
    id: name,
    label: shortened(flag, 45),
    placeholder: shortened(description, 100),
    isRequired: sets.every((set) => set.includes(name)),
    isLong: format === 'lines',
  }))
  return { shown, others: sorted.slice(mostFields).map(({ flag }) => flag) }
}
