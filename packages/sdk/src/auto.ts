import { SandboxError } from './errors.ts'
import { DaemonProvider } from './providers/daemon/index.ts'
import { DaytonaProvider } from './providers/daytona/index.ts'
import { E2BProvider, e2bOptionsOf } from './providers/e2b/index.ts'
import { LocalProvider } from './providers/local/index.ts'
import { SshProvider, sshOptionsOf } from './providers/ssh/index.ts'
import { VercelProvider, vercelOptionsOf } from './providers/vercel/index.ts'
import type { SandboxProvider } from './spec/index.ts'

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
  readonly make?: (env: SetVariables) => unknown
}

type SetVariables = { readonly [name: string]: string }

/**
 * Detection order: the first row whose variables are all set wins; `SANDKASTEN_PROVIDER` overrides the table.
 * `local` and `ssh` are chosen only by name because they do not isolate.
 * Importing a provider is cheap: its vendor's SDK is loaded on first use.
 */
export const detectionTable: readonly DetectionRow[] = [
  {
    provider: 'daytona',
    variables: [['DAYTONA_API_KEY']],
    optional: ['DAYTONA_API_URL', 'DAYTONA_TARGET'],
    sdk: '@daytona/sdk@0',
    make: (env) =>
      new DaytonaProvider({
        apiKey: env.DAYTONA_API_KEY!,
        apiUrl: env.DAYTONA_API_URL,
        target: env.DAYTONA_TARGET,
      }),
  },
  {
    provider: 'e2b',
    variables: [['E2B_API_KEY']],
    optional: ['E2B_DOMAIN', 'E2B_API_URL', 'E2B_SANDBOX_URL'],
    sdk: 'e2b@2',
    make: (env) => new E2BProvider(e2bOptionsOf(env)),
  },
  {
    provider: 'vercel',
    // Variables set by hand take precedence over the token that Vercel sets itself.
    variables: [['VERCEL_TOKEN', 'VERCEL_TEAM_ID', 'VERCEL_PROJECT_ID'], ['VERCEL_OIDC_TOKEN']],
    sdk: '@vercel/sandbox@3',
    make: (env) => new VercelProvider(vercelOptionsOf(env)),
  },
  {
    provider: 'daemon',
    variables: [['SANDKASTEN_URL', 'SANDKASTEN_API_KEY']],
    make: (env) => new DaemonProvider({ url: env.SANDKASTEN_URL!, apiKey: env.SANDKASTEN_API_KEY! }),
  },
  { provider: 'sprites', variables: [['SPRITES_TOKEN']] },
  { provider: 'hopx', variables: [['HOPX_API_KEY']] },
  { provider: 'modal', variables: [['MODAL_TOKEN_ID', 'MODAL_TOKEN_SECRET']], sdk: 'modal' },
  { provider: 'cloudflare', variables: [['CLOUDFLARE_SANDBOX_BASE_URL', 'CLOUDFLARE_API_TOKEN']] },
  {
    provider: 'ssh',
    variables: [],
    optional: ['SANDKASTEN_SSH_HOST'],
    sdk: 'ssh2@1',
    make: (env) => new SshProvider(sshOptionsOf(env)),
  },
  { provider: 'local', variables: [], make: () => new LocalProvider() },
]

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
  const chosen = named ? rows.find(({ provider }) => provider === named) : asked[0]
  const provider = named || chosen?.provider
  const halfSet = rows
    .filter((row) => row.set === undefined && row.variables.some((set) => set.some(isSet)))
    .map((row) => ({ provider: row.provider, missing: nearest(row, isSet) }))
  const others = asked.map((row) => row.provider).filter((name) => name !== provider)
  return {
    provider,
    decidedBy: named ? ['SANDKASTEN_PROVIDER'] : (chosen?.set ?? []),
    reason: named
      ? `SANDKASTEN_PROVIDER says “${named}”.`
      : chosen
        ? `${listed(chosen.set!)} ${are(chosen.set!)} set, so the provider is “${chosen.provider}”.${skippedNote(chosen.provider, halfSet)}${othersNote(others)}`
        : `No variable that selects a provider is set.${halfSet.map(incomplete).join('')}`,
    alsoSet: others,
    halfSet,
    install: chosen?.sdk && `npm install ${chosen.sdk}`,
  }
}

export interface AutoDetectOptions {
  env?: Environment
  /** Called with the decision and its reasons. */
  onDecision?: (detection: Detection) => void
}

/**
 * Returns the provider that the environment selects, or null. Throws if this version does not have the provider or if
 * its variables are incomplete.
 * Makes no request: call `healthCheck()` to test the provider. If the vendor's SDK is missing, the first call throws
 * and prints the install command.
 */
export function autoDetectProvider({
  env = process.env,
  onDecision,
}: AutoDetectOptions = {}): SandboxProvider | null {
  const detection = detectProvider(env)
  onDecision?.(detection)
  if (detection.provider === undefined) return null
  const row = detectionTable.find(({ provider }) => provider === detection.provider)
  const details = { ...detection }
  if (!row)
    throw new SandboxError('invalid_argument', `There is no provider “${detection.provider}”.`, {
      hint: `Set SANDKASTEN_PROVIDER to one of ${detectionTable.map(({ provider }) => provider).join(', ')}.`,
      details,
    })
  if (!row.make)
    throw new SandboxError(
      'unsupported',
      `${detection.reason} This version of @sandkasten/sdk does not have that provider yet.`,
      {
        provider: row.provider,
        hint: `Unset ${detection.decidedBy.join(', ')}, or set SANDKASTEN_PROVIDER=local for sandboxes on this machine without isolation.`,
        details,
      },
    )
  // A key read from a file often ends in a line break, which is invalid in a header.
  const values = Object.entries(env)
    .filter(([name]) => belongs(row, name))
    .map(([name, value = '']) => [name, value.trim()])
  const set: SetVariables = Object.fromEntries(values.filter(([, value]) => value !== ''))
  if (row.variables.length > 0 && !row.variables.some((names) => names.every((name) => name in set)))
    throw new SandboxError(
      'invalid_argument',
      `${detection.reason} It needs ${listed(nearest(row, (name) => name in set))}.`,
      {
        provider: row.provider,
        hint: `Set ${row.variables.map((names) => listed(names)).join(', or ')}.`,
        details,
      },
    )
  return row.make(set) as SandboxProvider
}

/** The missing variables of the most complete set; ties go to the smallest set. */
function nearest({ variables }: DetectionRow, isSet: (name: string) => boolean): string[] {
  const sets = variables.map((names) => ({ names, missing: names.filter((name) => !isSet(name)) }))
  const there = ({ names, missing }: (typeof sets)[number]) => names.length - missing.length
  return sets.sort((a, b) => there(b) - there(a) || a.missing.length - b.missing.length)[0]?.missing ?? []
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

function othersNote(others: readonly string[]): string {
  if (others.length === 0) return ''
  const names = listed(others.map((name) => `“${name}”`))
  return ` ${names} ${are(others)} set up too, but ${others.length === 1 ? 'comes' : 'come'} later in the order; set SANDKASTEN_PROVIDER to choose one.`
}

function listed(names: readonly string[]): string {
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
}

function are(names: readonly string[]): string {
  return names.length === 1 ? 'is' : 'are'
}
