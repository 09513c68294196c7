import { checkKnown } from '../core/validate.ts'
import { SandboxError } from '../errors.ts'
import type { ProviderField, ProviderKind, ProviderSettings } from './kind.ts'

/** The largest value. Private keys have up to 4 KiB, tokens up to 8. */
export const mostValueBytes = 16 * 1024

type Checked = Pick<ProviderKind, 'provider' | 'fields' | 'alternatives'>

/** The sets of fields of which one must be complete. */
export function requiredSets(
  kind: Pick<ProviderKind, 'alternatives' | 'fields'>,
): ReadonlyArray<readonly string[]> {
  return kind.alternatives ?? [kind.fields.filter(({ required }) => required).map(({ name }) => name)]
}

/** Throws `invalid_argument` for missing, unknown, contradictory and malformed settings, without their values. */
export function checkSettings(kind: Checked, settings: unknown): ProviderSettings {
  if (typeof settings !== 'object' || settings === null || Array.isArray(settings))
    throw invalid(kind, `The settings of the provider “${kind.provider}” must be an object of strings.`)
  const names = Object.keys(settings)
  // A secret in the place of a name must not be printed, so only names that look like one are.
  if (names.some((name) => !/^[a-z][a-zA-Z]{0,31}$/.test(name)))
    throw invalid(kind, `The provider “${kind.provider}” has no setting of that name.`, takes(kind))
  checkKnown(
    settings,
    kind.fields.map(({ name }) => name),
    `The provider “${kind.provider}”`,
  )
  const given = settings as Readonly<Record<string, unknown>>
  for (const field of kind.fields) if (given[field.name] !== undefined) checkValue(kind, field, given)
  checkComplete(
    kind,
    names.filter((name) => given[name] !== undefined),
  )
  const defined = Object.entries(given).filter(([, value]) => value !== undefined)
  return Object.fromEntries(defined) as ProviderSettings
}

/** A constructor's error, unless it quotes a value: then an error that does not. */
export function withoutValues(error: unknown, kind: Checked, settings: ProviderSettings): unknown {
  const known = SandboxError.is(error) ? error : undefined
  const text = JSON.stringify([known?.toJSON(), known?.hints])
  const quoted = Object.values(settings).some((value) => text.includes(JSON.stringify(value).slice(1, -1)))
  if (known && !quoted && known.cause === undefined) return known
  return new SandboxError(
    known?.code ?? 'invalid_argument',
    `The provider “${kind.provider}” does not accept these settings.`,
    { provider: kind.provider, hint: `Check ${listed(Object.keys(settings))}.` },
  )
}

function checkValue(kind: Checked, field: ProviderField, given: Readonly<Record<string, unknown>>): void {
  const value = given[field.name]
  const details = { field: field.name }
  const refuse = (what: string, hint?: string) => invalid(kind, `\`${field.name}\` ${what}`, hint, details)
  if (typeof value !== 'string') throw refuse('must be a string.')
  if (value.trim() === '') throw refuse('is empty.', `Leave ${field.name} out, or give it a value.`)
  if (new TextEncoder().encode(value).length > mostValueBytes)
    throw refuse(`is longer than ${mostValueBytes} bytes.`)
  const { format } = field
  const text = format === 'lines' ? value.replace(/[\n\r\t]/g, '') : value
  if (/\p{Cc}/u.test(text))
    throw refuse('contains a control character.', 'Check for a line break at its end.')
  if (format === 'url') {
    if (!/^https?:\/\/./.test(value) || !URL.canParse(value))
      throw refuse('must begin with http:// or https://.')
    const { username, password } = new URL(value)
    // An address is shown to people, so it is no place for a secret.
    if (username !== '' || password !== '') throw refuse('must not contain a user name or a password.')
  }
  if (format === 'port' && !(/^\d{1,5}$/.test(value) && Number(value) >= 1 && Number(value) <= 65535))
    throw refuse('is not a port number.', 'Use a whole number from 1 to 65535.')
}

function checkComplete(kind: Checked, given: readonly string[]): void {
  const sets = requiredSets(kind)
  const complete = sets.find((set) => set.every((name) => given.includes(name)))
  if (!complete) {
    const missing = nearestSet(sets, (name) => given.includes(name))
    throw invalid(
      kind,
      `The provider “${kind.provider}” needs ${listed(missing.map((name) => `\`${name}\``))}.`,
      `Pass ${sets.map((set) => described(kind, set)).join('; or ')}.`,
      { missing },
    )
  }
  const extra = given.filter((name) => !complete.includes(name) && sets.some((set) => set.includes(name)))
  if (extra.length === 0) return
  throw invalid(
    kind,
    `${listed(extra.map((name) => `\`${name}\``))} cannot be combined with ${listed(complete.map((name) => `\`${name}\``))}.`,
    `Pass either ${sets.map(listed).join(', or ')}.`,
    { conflicting: extra },
  )
}

/** What the most complete set lacks; ties go to the smallest set. */
export function nearestSet(
  sets: ReadonlyArray<readonly string[]>,
  isSet: (name: string) => boolean,
): string[] {
  const all = sets.map((names) => ({ names, missing: names.filter((name) => !isSet(name)) }))
  const there = ({ names, missing }: (typeof all)[number]) => names.length - missing.length
  return all.sort((a, b) => there(b) - there(a) || a.missing.length - b.missing.length)[0]?.missing ?? []
}

export function listed(names: readonly string[]): string {
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
}

/** `host (SANDKASTEN_SSH_HOST)`: one wording for callers that pass settings and for those that set variables. */
function described({ fields }: Checked, set: readonly string[]): string {
  const variable = (name: string) => fields.find((field) => field.name === name)?.variable
  return listed(set.map((name) => (variable(name) ? `${name} (${variable(name)})` : name)))
}

function takes({ fields }: Checked): string {
  return fields.length === 0 ? 'It takes none.' : `It takes: ${fields.map(({ name }) => name).join(', ')}.`
}

function invalid(
  { provider }: Checked,
  message: string,
  hint?: string,
  details?: Record<string, unknown>,
): SandboxError {
  return new SandboxError('invalid_argument', message, { provider, hint, details })
}
