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
  /** Sets of variables; any one of them is enough, if all of its variables are set. With none, it is only chosen by name. */
  readonly variables: ReadonlyArray<readonly string[]>
  /** Read too where they are set, and decide nothing. */
  readonly optional?: readonly string[]
  /** The vendor's own package, which the provider loads when it is first used, with the version that is known here. */
  readonly sdk?: string
  /** Absent where this version does not have the provider. Given only the row's variables that are set, without blanks around them. */
  readonly make?: (env: SetVariables) => unknown
}

type SetVariables = { readonly [name: string]: string }

/**
 * Which provider the environment asks for. The table is looked through from top to bottom and the first row whose variables are
 * all set decides; `SANDKASTEN_PROVIDER` names one outright. `local` and `ssh` are only ever chosen by name, because they do not
 * isolate. Modules of providers are cheap to import: none of them loads its vendor's SDK before it is used.
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
    // What somebody set by hand goes before what Vercel sets by itself.
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

/** What was decided, and everything that it was decided by. Names of variables, never their values. */
export interface Detection {
  /** Undefined when nothing decided. */
  readonly provider?: string
  /** The variables that decided. */
  readonly decidedBy: readonly string[]
  /** A sentence or two for people. */
  readonly reason: string
  /** Others whose variables are all set, and that come later in the order. */
  readonly alsoSet: readonly string[]
  /** Others of which only some variables are set, with those that are missing. */
  readonly halfSet: ReadonlyArray<{ readonly provider: string; readonly missing: readonly string[] }>
  /** What has to be installed beside this package for the provider to work. */
  readonly install?: string
}

type Environment = Readonly<Record<string, string | undefined>>

/** What the environment asks for, and why. */
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
    ...(provider ? { provider } : {}),
    decidedBy: named ? ['SANDKASTEN_PROVIDER'] : (chosen?.set ?? []),
    reason: named
      ? `SANDKASTEN_PROVIDER says “${named}”.`
      : chosen
        ? `${listed(chosen.set!)} ${are(chosen.set!)} set, so it is “${chosen.provider}”.${passedOver(chosen.provider, halfSet)}${later(others)}`
        : `No variable of a provider is set.${halfSet.map(incomplete).join('')}`,
    alsoSet: others,
    halfSet,
    ...(chosen?.sdk ? { install: `npm install ${chosen.sdk}` } : {}),
  }
}

export interface AutoDetectOptions {
  env?: Environment
  /** Told what was decided, and why. */
  onDecision?: (detection: Detection) => void
}

/**
 * The provider that the environment asks for, or null. One that this version does not have, or whose variables are incomplete, is
 * an error, not null. Nothing is reached here; `healthCheck()` tells whether it can be used. A vendor's SDK that is not installed
 * is told by the first call, with the line that installs it.
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
  // A key from a file often ends in a line break, which no header takes.
  const values = Object.entries(env)
    .filter(([name]) => belongs(row, name))
    .map(([name, value = '']) => [name, value.trim()])
  const set: SetVariables = Object.fromEntries(values.filter(([, value]) => value !== ''))
  if (row.variables.length > 0 && !row.variables.some((names) => names.every((name) => name in set)))
    throw new SandboxError(
      'invalid_argument',
      `${detection.reason} ${listed(nearest(row, (name) => name in set))} is needed for it.`,
      {
        provider: row.provider,
        hint: `Set ${row.variables.map((names) => listed(names)).join(', or ')}.`,
        details,
      },
    )
  return row.make(set) as SandboxProvider
}

/** What is missing of the set of which most is there; where that is equal, of the smallest. */
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

/** Who set half of what comes earlier is surprised that it did not count. */
function passedOver(chosen: string, halfSet: readonly Half[]): string {
  const place = (name: string) => detectionTable.findIndex(({ provider }) => provider === name)
  return halfSet
    .filter(({ provider }) => place(provider) < place(chosen))
    .map(incomplete)
    .join('')
}

function later(others: readonly string[]): string {
  if (others.length === 0) return ''
  const names = listed(others.map((name) => `“${name}”`))
  return ` ${names} ${are(others)} set up too, and ${others.length === 1 ? 'comes' : 'come'} later in the order; SANDKASTEN_PROVIDER names one outright.`
}

function listed(names: readonly string[]): string {
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
}

function are(names: readonly string[]): string {
  return names.length === 1 ? 'is' : 'are'
}
