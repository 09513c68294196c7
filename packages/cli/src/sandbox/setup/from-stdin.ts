import type { ProviderField, ProviderKind } from '@sandkasten/sdk/auto'
import { requiredSets } from '@sandkasten/sdk/auto'
import { invalid } from './arguments.ts'

/** Settings of one provider with room for every field. */
const mostBytes = 16 * 16 * 1024

export async function readStdin(): Promise<string> {
  let text = ''
  process.stdin.setEncoding('utf8')
  for await (const chunk of process.stdin) {
    text += chunk
    if (text.length > mostBytes)
      throw invalid('stdin is too long for settings.', 'Pipe one secret, JSON, or NAME=value lines.')
  }
  return text
}

/**
 * Settings from text: a JSON object, `NAME=value` lines, or one secret. Names are fields, flags or variables. `given`
 * has the fields that are set otherwise. Errors quote no part of the text.
 */
export function settingsOfText(
  kind: ProviderKind,
  text: string,
  given: Readonly<Record<string, string>>,
): Record<string, string> {
  const trimmed = text.trim()
  if (trimmed === '') throw invalid('stdin is empty.', 'Pipe one secret, JSON, or NAME=value lines.')
  if (trimmed.startsWith('{')) return named(kind, ofJson(trimmed))
  const lines = trimmed.split(/\r?\n/).filter((line) => line.trim() !== '' && !line.startsWith('#'))
  const pairs = lines.map((line) => /^(?:export )?([A-Za-z][A-Za-z0-9_-]*)=(.*)$/.exec(line))
  // One line may be a secret that ends in `=`, so a name counts only if the provider has it.
  if (pairs.every((pair) => pair !== null) && (pairs.length > 1 || fieldOf(kind, pairs[0]![1]!)))
    return named(
      kind,
      pairs.map((pair) => [pair![1]!, unquoted(pair![2]!)] as const),
    )
  return { [secretOf(kind, given).name]: trimmed }
}

function ofJson(text: string): Array<readonly [string, string]> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw invalid('stdin begins with { but is not JSON.', 'Pipe an object of strings.')
  }
  return Object.entries(value as object).map(([name, one]) => {
    if (typeof one !== 'string')
      throw invalid('stdin has a value that is not a string.', 'Put values in quotes.')
    return [name, one] as const
  })
}

function named(kind: ProviderKind, pairs: ReadonlyArray<readonly [string, string]>): Record<string, string> {
  return Object.fromEntries(
    pairs.map(([name, value], at) => {
      const field = fieldOf(kind, name)
      if (!field)
        throw invalid(
          `Entry ${at + 1} of stdin is not a setting of the provider ${kind.provider}.`,
          `It takes: ${kind.fields.map((one) => one.variable ?? one.flag).join(', ')}.`,
        )
      return [field.name, value]
    }),
  )
}

function fieldOf({ fields }: ProviderKind, name: string): ProviderField | undefined {
  return fields.find((field) => name === field.name || name === field.flag || name === field.variable)
}

/** The secret that is missing: a required one, or the first. */
function secretOf(kind: ProviderKind, given: Readonly<Record<string, string>>): ProviderField {
  const open = kind.fields.filter(({ name, secret }) => secret && given[name] === undefined)
  const required = requiredSets(kind)[0]!
  const field = open.find(({ name }) => required.includes(name)) ?? open[0]
  if (field) return field
  throw invalid(`The provider ${kind.provider} takes no further secret.`, 'Pipe NAME=value lines instead.')
}

/** As in a shell script or an .env file. */
function unquoted(value: string): string {
  return /^(["'])(.*)\1$/s.exec(value.trim())?.[2] ?? value.trim()
}
