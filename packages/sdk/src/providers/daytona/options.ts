import { checkMs } from '../../core/validate.ts'
import { SandboxError } from '../../errors.ts'
import type { DaytonaModule } from './sdk.ts'

export interface DaytonaProviderOptions {
  /** Default: `DAYTONA_API_KEY`. */
  apiKey?: string
  /** Instead of a key, together with `organizationId`. */
  jwtToken?: string
  organizationId?: string
  /** One's own Daytona, or a Sandkasten daemon's front: its address and `/api`. Default: `DAYTONA_API_URL`, or the vendor's cloud. */
  apiUrl?: string
  /** The region. Default: `DAYTONA_TARGET`, or what the organisation has chosen. */
  target?: string
  /** The vendor's SDK, or a function that imports it, for bundlers. Default: the installed package. */
  sdk?: DaytonaModule | (() => Promise<DaytonaModule>)
  /** How long one request may take that is not known to wait. Default 60 s. */
  requestTimeoutMs?: number
  /** How long a sandbox may take to start, stop or be saved. Default 5 min. */
  startTimeoutMs?: number
}

/** How long things may take. */
export interface TimeLimits {
  /** A sandbox from one state to the next. */
  readonly startMs: number
  /** One request. */
  readonly requestMs: number
}

const cloud = 'https://app.daytona.io/api'

/** Complete, so that the SDK reads no configuration files or variables of its own. */
export function configOf(options: DaytonaProviderOptions) {
  const env = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {}
  const { jwtToken, organizationId } = options
  const apiKey = options.apiKey ?? (jwtToken ? undefined : env.DAYTONA_API_KEY)
  const target = options.target ?? env.DAYTONA_TARGET
  if (!apiKey && !jwtToken) throw needed('`apiKey`', 'Pass apiKey, or set DAYTONA_API_KEY.')
  if (!apiKey && !organizationId)
    throw needed('`organizationId` together with `jwtToken`', 'Pass both, or an apiKey.')
  return {
    ...(apiKey ? { apiKey } : { jwtToken: jwtToken!, organizationId: organizationId! }),
    apiUrl: options.apiUrl ?? env.DAYTONA_API_URL ?? cloud,
    ...(target === undefined ? {} : { target }),
    requestTimeoutMs: checkMs(options.requestTimeoutMs ?? 60_000, 'requestTimeoutMs'),
    // Its socket of events would be one more thing that keeps a process alive; we look ourselves.
    useDeprecatedPolling: true,
  }
}

function needed(what: string, hint: string): SandboxError {
  return new SandboxError('invalid_argument', `The Daytona provider needs ${what}.`, {
    provider: 'daytona',
    hint,
  })
}
