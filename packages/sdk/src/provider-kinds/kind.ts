import type { SandboxProvider } from '../spec/index.ts'
import { checkSettings, requiredSets, withoutValues } from './check-settings.ts'

/** The values of a provider's fields, by name. Strings only, so that they can be typed, stored and encrypted. */
export type ProviderSettings = Readonly<Record<string, string>>

/** One setting of a provider: a key of its options, a flag of the command line and a variable. */
export interface ProviderField {
  /** In camelCase: `projectId`. */
  readonly name: string
  /** Without dashes in front: `project-id`. */
  readonly flag: string
  readonly variable?: string
  /** Prompt without echo, encrypt, never print. */
  readonly secret?: boolean
  /** Every set of `alternatives` needs it. */
  readonly required?: boolean
  /** One short line: `an API key from the Daytona dashboard`. */
  readonly description: string
  readonly format?: FieldFormat
}

/** `lines`: several lines of text, such as a private key. Default: one line of any text. */
export type FieldFormat = 'url' | 'port' | 'lines'

/** What a provider gets besides its settings. */
export interface ProviderContext {
  /**
   * The values of secrets that network policies name. A provider that asks later than in a call of its user says for
   * which sandbox.
   */
  readonly secrets?: (name: string, about?: SecretSubject) => Promise<string | undefined>
}

export interface SecretSubject {
  readonly labels: Readonly<Record<string, string>>
}

/** A provider that can be constructed from strings, and the strings that it needs. */
export interface ProviderKind {
  readonly provider: string
  /** For people: `Vercel Sandbox`. */
  readonly title: string
  readonly fields: readonly ProviderField[]
  /** Sets of field names; one set must be complete. Default: one set of the required fields. */
  readonly alternatives?: ReadonlyArray<readonly string[]>
  /** The vendor's package and its tested version, to install: `@daytona/sdk@0`. */
  readonly sdk?: string
  /**
   * Checks the settings and constructs the provider, from these settings only: variables that redirect a vendor's SDK
   * have no effect. Throws `invalid_argument` with the names of missing, unknown or malformed fields, and
   * `unauthenticated` for an expired token. Errors never contain a value.
   */
  make(settings: ProviderSettings, context?: ProviderContext): SandboxProvider
}

/** A field without what follows from its name. */
export interface FieldOptions extends Pick<ProviderField, 'variable' | 'secret' | 'description' | 'format'> {
  /** Default: the name in kebab-case. */
  readonly flag?: string
}

export interface KindOptions<Name extends string> {
  readonly provider: string
  readonly title: string
  readonly fields: Readonly<Record<Name, FieldOptions>>
  /** Default: no field is required. */
  readonly alternatives?: ReadonlyArray<readonly NoInfer<Name>[]>
  readonly sdk?: string
  /** Receives checked settings. */
  make(settings: { readonly [N in NoInfer<Name>]?: string }, context: ProviderContext): SandboxProvider
}

/** Completes a kind: derives flags and `required`, and checks settings before `make`. */
export function defineProviderKind<Name extends string>(options: KindOptions<Name>): ProviderKind {
  const { provider, title, alternatives = [[]], sdk } = options
  const fields = Object.entries<FieldOptions>(options.fields).map(([name, { flag, ...field }]) => ({
    name,
    flag: flag ?? name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
    ...field,
    required: alternatives.every((set) => set.includes(name as Name)),
  }))
  const kind = { provider, title, fields, alternatives, sdk }
  return {
    ...kind,
    make(settings, context = {}) {
      const checked = checkSettings(kind, settings)
      try {
        return options.make(checked as { [N in Name]?: string }, context)
      } catch (error) {
        throw withoutValues(error, kind, checked)
      }
    },
  }
}

/**
 * The settings that the variables give. If several alternatives are complete, the first one counts. Ignores empty
 * variables, and trims: a key read from a file often ends in a line break, which is invalid in a header.
 */
export function settingsFromVariables(
  kind: Pick<ProviderKind, 'alternatives' | 'fields'>,
  env: Readonly<Record<string, string | undefined>>,
): ProviderSettings {
  const given = new Map<string, string>()
  for (const { name, variable } of kind.fields) {
    const value = variable === undefined ? '' : (env[variable] ?? '').trim()
    if (value !== '') given.set(name, value)
  }
  const sets = requiredSets(kind)
  const complete = sets.find((set) => set.every((name) => given.has(name)))
  const other = new Set(complete ? sets.flat().filter((name) => !complete.includes(name)) : [])
  return Object.fromEntries([...given].filter(([name]) => !other.has(name)))
}
