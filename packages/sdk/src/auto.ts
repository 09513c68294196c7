import { SandboxError } from './errors.ts'
import { DaemonProvider } from './providers/daemon/index.ts'
import { LocalProvider } from './providers/local/index.ts'
import type { SandboxProvider } from './spec/index.ts'

/**
 * Which provider the environment asks for. The table is looked through from top to bottom and the first row whose
 * variables are all set decides; `SANDKASTEN_PROVIDER` names one outright. The local provider is only ever chosen
 * by name, because it does not isolate.
 */
export const detectionTable: readonly DetectionRow[] = [
  { provider: 'daytona', variables: [['DAYTONA_API_KEY']] },
  { provider: 'e2b', variables: [['E2B_API_KEY']] },
  {
    provider: 'vercel',
    variables: [['VERCEL_OIDC_TOKEN'], ['VERCEL_TOKEN', 'VERCEL_TEAM_ID', 'VERCEL_PROJECT_ID']],
  },
  { provider: 'daemon', variables: [['SANDKASTEN_URL', 'SANDKASTEN_API_KEY']] },
  { provider: 'sprites', variables: [['SPRITES_TOKEN']] },
  { provider: 'hopx', variables: [['HOPX_API_KEY']] },
  { provider: 'modal', variables: [['MODAL_TOKEN_ID', 'MODAL_TOKEN_SECRET']] },
  { provider: 'cloudflare', variables: [['CLOUDFLARE_SANDBOX_BASE_URL', 'CLOUDFLARE_API_TOKEN']] },
]

export interface DetectionRow {
  readonly provider: string
  /** Sets of variables; any one of them is enough, if all of its variables are set. */
  readonly variables: ReadonlyArray<readonly string[]>
}

export interface Detection {
  /** Undefined when nothing decided. */
  readonly provider?: string
  /** The variables that decided. */
  readonly decidedBy: readonly string[]
  /** A sentence for people; names variables, never their values. */
  readonly reason: string
}

type Environment = Readonly<Record<string, string | undefined>>

/** What the environment asks for, and why. Looks at names only. */
export function detectProvider(env: Environment = process.env): Detection {
  const isSet = (name: string) => (env[name] ?? '') !== ''
  if (isSet('SANDKASTEN_PROVIDER')) {
    const provider = env.SANDKASTEN_PROVIDER!
    return { provider, decidedBy: ['SANDKASTEN_PROVIDER'], reason: `SANDKASTEN_PROVIDER says “${provider}”.` }
  }
  for (const { provider, variables } of detectionTable) {
    const set = variables.find((names) => names.every(isSet))
    if (set)
      return {
        provider,
        decidedBy: set,
        reason: `${set.join(', ')} ${set.length === 1 ? 'is' : 'are'} set, so it is “${provider}”.`,
      }
  }
  const halfSet = detectionTable.flatMap(({ provider, variables }) =>
    variables
      .filter((names) => names.some(isSet))
      .map((names) => ({ provider, missing: names.filter((name) => !isSet(name)) })),
  )
  const note = halfSet
    .map(
      ({ provider, missing }) =>
        ` For “${provider}”, ${missing.join(' and ')} ${missing.length === 1 ? 'is' : 'are'} missing.`,
    )
    .join('')
  return { decidedBy: [], reason: `No variable of a provider is set.${note}` }
}

export interface AutoDetectOptions {
  env?: Environment
  /** Told what was decided, and why. */
  onDecision?: (detection: Detection) => void
}

/** The provider that the environment asks for, or null. One that this version does not have is an error, not null. */
export function autoDetectProvider({
  env = process.env,
  onDecision,
}: AutoDetectOptions = {}): SandboxProvider | null {
  const detection = detectProvider(env)
  onDecision?.(detection)
  if (detection.provider === undefined) return null
  if (detection.provider === 'local') return new LocalProvider() as unknown as SandboxProvider
  if (detection.provider === 'daemon')
    return new DaemonProvider({
      ...(env.SANDKASTEN_URL ? { url: env.SANDKASTEN_URL } : {}),
      ...(env.SANDKASTEN_API_KEY ? { apiKey: env.SANDKASTEN_API_KEY } : {}),
    }) as unknown as SandboxProvider
  const known = detectionTable.some(({ provider }) => provider === detection.provider)
  if (!known) {
    throw new SandboxError('invalid_argument', `There is no provider “${detection.provider}”.`, {
      hint: `Set SANDKASTEN_PROVIDER to one of local, ${detectionTable.map(({ provider }) => provider).join(', ')}.`,
      details: { ...detection },
    })
  }
  throw new SandboxError(
    'unsupported',
    `${detection.reason} This version of @sandkasten/sdk does not have that provider yet.`,
    {
      provider: detection.provider,
      hint: `Unset ${detection.decidedBy.join(', ')}, or set SANDKASTEN_PROVIDER=local for sandboxes on this machine without isolation.`,
      details: { ...detection },
    },
  )
}
