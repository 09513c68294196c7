import { password, select, text } from '@clack/prompts'
import { type ProviderField, type ProviderKind, requiredSets } from '@sandkasten/sdk/auto'
import { answerTo, onStderr } from '../ask.ts'

/** Asks for the required settings that are not given. A secret is typed without echo. */
export async function askSettings(
  kind: ProviderKind,
  given: Readonly<Record<string, string>>,
): Promise<Record<string, string>> {
  const settings = { ...given }
  for (const name of await chosenSet(kind, given)) {
    if (settings[name] !== undefined) continue
    const field = kind.fields.find((one) => one.name === name)!
    settings[name] = await askField(field)
  }
  return settings
}

/** The alternative that fits what is given; asks if several do. */
async function chosenSet(
  kind: ProviderKind,
  given: Readonly<Record<string, string>>,
): Promise<readonly string[]> {
  const sets = requiredSets(kind)
  const complete = sets.find((set) => set.every((name) => given[name] !== undefined))
  if (complete) return complete
  const begun = sets.filter((set) => set.some((name) => given[name] !== undefined))
  const open = begun.length > 0 ? begun : sets
  if (open.length === 1) return open[0]!
  const at = await answerTo(
    select<number>({
      ...onStderr,
      message: `How do you sign in to ${kind.title}?`,
      options: open.map((set, value) => ({ value, label: set.map((name) => flagOf(kind, name)).join(', ') })),
    }),
  )
  return open[at]!
}

function askField({ flag, description, secret }: ProviderField): Promise<string> {
  const message = `${flag} (${description})`
  const validate = (value: string | undefined) =>
    value?.trim() ? undefined : 'Type a value, or press Ctrl-C.'
  // An empty mask: not even the length of a secret is shown.
  return answerTo(
    secret
      ? password({ ...onStderr, message, validate, mask: '' })
      : text({ ...onStderr, message, validate }),
  )
}

function flagOf({ fields }: ProviderKind, name: string): string {
  return fields.find((field) => field.name === name)!.flag
}
