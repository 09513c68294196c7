import { SandboxError } from './errors.ts'
import { listed, nearestSet } from './provider-kinds/check-settings.ts'
import { providerKinds, requiredSets, settingsFromVariables } from './provider-kinds/index.ts'
import type { SandboxProvider } from './spec/index.ts'

export {
  createProvider,
  defineProviderKind,
  type FieldFormat,
  type FieldOptions,
  type KindOptions,
  type ProviderContext,
  type ProviderField,
  type ProviderKind,
  type ProviderSettings,
  providerKinds,
  requiredSets,
  type SecretSubject,
  settingsFromVariables,
} from './provider-kinds/index.ts'

export interface DetectionRow {
  readonly provider: string
  /**
   * Alternative sets of variables. A set counts only when all of its variables are set. If the list is empty, the
   * provider is chosen only by name.
   */
  readonly variables: ReadonlyArray<readonly string[]>
  /** Passed to `make` when set; they do not influence the decision. */
  readonly optional?: readonly string[]
  /** The vendor's package and its tested version. The provider loads it on first use. */
  readonly sdk?: string
  /** Absent if this version does not have the provider. Receives only the row's variables that are set, trimmed. */
  readonly make?: (env: SetVariables) => SandboxProvider
}

type SetVariables = { readonly [name: string]: string }

/**
 * Detection order: the first row whose variables are all set wins; `SANDKASTEN_PROVIDER` overrides the table.
 * Importing a provider is cheap: its vendor's SDK is loaded on first use.
 */
export const detectionTable: readonly DetectionRow[] = [
  detected('daytona'),
  detected('e2b'),
  detected('vercel'),
  detected('daemon'),
  detected('sprites'),
  detected('hopx'),
  { provider: 'modal', variables: [['MODAL_TOKEN_ID', 'MODAL_TOKEN_SECRET']], sdk: 'modal' },
  { provider: 'cloudflare', variables: [['CLOUDFLARE_SANDBOX_BASE_URL', 'CLOUDFLARE_API_TOKEN']] },
  byName('ssh'),
  byName('local'),
]

/** The row of a provider that its variables select. Alternatives without variables can only be passed as settings. */
function detected(provider: string): DetectionRow {
  const kind = providerKinds.find((one) => one.provider === provider)!
  const variableOf = (name: string) => kind.fields.find((field) => field.name === name)?.variable
  const sets = requiredSets(kind).map((set) => set.flatMap((name) => variableOf(name) ?? []))
  const variables = sets.filter((set, at) => set.length === requiredSets(kind)[at]!.length)
  const optional = kind.fields
    .flatMap(({ variable }) => variable ?? [])
    .filter((variable) => !variables.flat().includes(variable))
  return {
    provider,
    variables,
    optional,
    sdk: kind.sdk,
    make: (env) => kind.make(settingsFromVariables(kind, env)),
  }
}

/** The row of a provider that is chosen only by name, because it does not isolate. */
function byName(provider: string): DetectionRow {
  const { variables, optional = [], ...row } = detected(provider)
  return { ...row, variables: [], optional: [...variables.flat(), ...optional] }
}

/** The decision and its reasons. Contains names of variables, never their values. */
export interface Detection {
  /** Undefined if no provider was detected. */
  readonly provider?: string
  /** The variables that decided. */
  readonly decidedBy: readonly string[]
  /** An explanation of one or two sentences. */
  readonly reason: string
  /** Providers later in the order whose variables are all set. */
  readonly alsoSet: readonly string[]
  /** Providers with only some of their variables set, and the missing ones. */
  readonly halfSet: ReadonlyArray<{ readonly provider: string; readonly missing: readonly string[] }>
  /** Providers that the environment asks for, but that this version does not have. They are skipped. */
  readonly notIncluded: readonly string[]
  /** The package to install for this provider. */
  readonly install?: string
}

type Environment = Readonly<Record<string, string | undefined>>

/** Reports which provider the environment selects, and why. */
export function detectProvider(env: Environment = process.env): Detection {
  const isSet = (name: string) => (env[name] ?? '').trim() !== ''
  const named = (env.SANDKASTEN_PROVIDER ?? '').trim()
  const rows = detectionTable.map((row) => ({ ...row, set: row.variables.find((set) => set.every(isSet)) }))
  const asked = rows.filter(({ set }) => set !== undefined)
  const byName = rows.find((row) => row.provider === named)
  const chosen = named ? byName : asked.find(({ make }) => make)
  // A provider of that name is not replaced by another one: the name was a decision.
  const provider = byName && !byName.make ? undefined : named || chosen?.provider
  const notIncluded = (byName ? [byName] : asked).filter(({ make }) => !make).map((row) => row.provider)
  const halfSet = rows
    .filter((row) => row.set === undefined && row.variables.some((set) => set.some(isSet)))
    .map((row) => ({ provider: row.provider, missing: nearestSet(row.variables, isSet) }))
  const others = asked
    .filter(({ make }) => make)
    .map((row) => row.provider)
    .filter((name) => name !== provider)
  return {
    provider,
    decidedBy: named ? ['SANDKASTEN_PROVIDER'] : (chosen?.set ?? []),
    reason: named
      ? `SANDKASTEN_PROVIDER says “${named}”.${notIncludedNote(notIncluded)}`
      : chosen
        ? `${listed(chosen.set!)} ${are(chosen.set!)} set, so the provider is “${chosen.provider}”.${skippedNote(chosen.provider, halfSet)}${notIncludedNote(notIncluded)}${othersNote(others)}`
        : notIncluded.length > 0
          ? `${notIncludedNote(notIncluded).trimStart()}${halfSet.map(incomplete).join('')}`
          : `No variable that selects a provider is set.${halfSet.map(incomplete).join('')}`,
    alsoSet: others,
    halfSet,
    notIncluded,
    install: chosen?.make && chosen.sdk && `npm install ${chosen.sdk}`,
  }
}

export interface AutoDetectOptions {
  env?: Environment
  /** Called with the decision and its reasons. */
  onDecision?: (detection: Detection) => void
}

/**
 * Returns the provider that the environment selects, or null. Skips providers that this version does not have; if that
 * leaves none, it also emits a warning with the reason. Throws if the provider that `SANDKASTEN_PROVIDER` names is
 * unknown or if its variables are incomplete.
 * Makes no request: call `healthCheck()` to test the provider. If the vendor's SDK is missing, the first call throws
 * and prints the install command.
 */
export function autoDetectProvider({
  env = process.env,
  onDecision,
}: AutoDetectOptions = {}): SandboxProvider | null {
  const detection = detectProvider(env)
  onDecision?.(detection)
  if (detection.provider === undefined) {
    if (detection.notIncluded.length > 0) warnNotIncluded(detection)
    return null
  }
  const row = detectionTable.find(({ provider }) => provider === detection.provider)
  const details = { ...detection }
  if (!row?.make)
    throw new SandboxError('invalid_argument', `There is no provider “${detection.provider}”.`, {
      hint: `Set SANDKASTEN_PROVIDER to one of ${included.join(', ')}.`,
      details,
    })
  // A key read from a file often ends in a line break, which is invalid in a header.
  const values = Object.entries(env)
    .filter(([name]) => belongs(row, name))
    .map(([name, value = '']) => [name, value.trim()])
  const set: SetVariables = Object.fromEntries(values.filter(([, value]) => value !== ''))
  if (row.variables.length > 0 && !row.variables.some((names) => names.every((name) => name in set)))
    throw new SandboxError(
      'invalid_argument',
      `${detection.reason} It needs ${listed(nearestSet(row.variables, (name) => name in set))}.`,
      {
        provider: row.provider,
        hint: `Set ${row.variables.map((names) => listed(names)).join(', or ')}.`,
        details,
      },
    )
  return row.make(set)
}

const included = detectionTable.filter(({ make }) => make).map(({ provider }) => provider)

function warnNotIncluded({ reason }: Detection): void {
  process.emitWarning(`No sandbox provider was selected. ${reason}`, {
    type: 'SandkastenWarning',
    code: 'SANDKASTEN_PROVIDER_NOT_INCLUDED',
    detail: `Set the variables of one of ${included.join(', ')}, or SANDKASTEN_PROVIDER.`,
  })
}

function belongs({ variables, optional = [] }: DetectionRow, name: string): boolean {
  return optional.includes(name) || variables.some((set) => set.includes(name))
}

type Half = Detection['halfSet'][number]

function incomplete({ provider, missing }: Half): string {
  return ` For “${provider}”, ${listed(missing)} ${are(missing)} missing.`
}

/** Mentions incomplete providers that come earlier in the order. */
function skippedNote(chosen: string, halfSet: readonly Half[]): string {
  const place = (name: string) => detectionTable.findIndex(({ provider }) => provider === name)
  return halfSet
    .filter(({ provider }) => place(provider) < place(chosen))
    .map(incomplete)
    .join('')
}

function notIncludedNote(names: readonly string[]): string {
  if (names.length === 0) return ''
  return ` This version of @sandkasten/sdk does not have ${listed(names.map((name) => `“${name}”`))}.`
}

function othersNote(others: readonly string[]): string {
  if (others.length === 0) return ''
  const names = listed(others.map((name) => `“${name}”`))
  return ` ${names} ${are(others)} set up too, but ${others.length === 1 ? 'comes' : 'come'} later in the order; set SANDKASTEN_PROVIDER to choose one.`
}

function are(names: readonly string[]): string {
  return names.length === 1 ? 'is' : 'are'
}
