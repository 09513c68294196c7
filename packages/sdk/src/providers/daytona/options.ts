import { checkKnown, checkMs } from '../../core/validate.ts'
import { SandboxError } from '../../errors.ts'
import type { DaytonaModule } from './sdk.ts'

export interface DaytonaProviderOptions {
  /** Default: `DAYTONA_API_KEY`. */
  apiKey?: string
  /** Instead of a key, together with `organizationId`. */
  jwtToken?: string
  organizationId?: string
  /** The address of your own Daytona, or of a Sandkasten daemon's front with `/api`. Default: `DAYTONA_API_URL`, or the vendor's cloud. */
  apiUrl?: string
  /** The region. Default: `DAYTONA_TARGET`, or the organisation's default. */
  target?: string
  /**
   * The snapshot or image of each runtime: `{ node24: 'my-snapshot', node22: { image: 'node:22' } }`. Default: Docker
   * Hub's images `node:24`, `node:22` and `python:3.13`.
   */
  runtimes?: Readonly<Record<string, DaytonaRuntime>>
  /** The vendor's SDK, or a function that imports it, for bundlers. Default: the installed package. */
  sdk?: DaytonaModule | (() => Promise<DaytonaModule>)
  /** The timeout of an ordinary request. Default 60 s. */
  requestTimeoutMs?: number
  /** The timeout of starting, stopping or saving a sandbox. Default 5 min. */
  startTimeoutMs?: number
  /** The variables that missing options come from. Default: those of this process. */
  env?: Readonly<Record<string, string | undefined>>
}

/** The name of a snapshot, or an image. */
export type DaytonaRuntime = string | { readonly image: string }

export interface TimeLimits {
  readonly startMs: number
  readonly requestMs: number
}

const cloud = 'https://app.daytona.io/api'

/** Sets the address and the credentials, so that the SDK reads neither from files or variables of its own. */
export function configOf(options: DaytonaProviderOptions) {
  checkKnown(options, known, 'DaytonaProvider')
  const env =
    options.env ??
    (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ??
    {}
  const { jwtToken, organizationId } = options
  const apiKey = options.apiKey ?? (jwtToken ? undefined : env.DAYTONA_API_KEY)
  const target = options.target ?? env.DAYTONA_TARGET
  if (!apiKey && !jwtToken) throw needed('`apiKey`', 'Pass apiKey, or set DAYTONA_API_KEY.')
  if (!apiKey && !organizationId)
    throw needed('`organizationId` together with `jwtToken`', 'Pass both, or an apiKey.')
  return {
    ...(apiKey ? { apiKey } : { jwtToken: jwtToken!, organizationId: organizationId! }),
    apiUrl: options.apiUrl ?? env.DAYTONA_API_URL ?? cloud,
    target,
    requestTimeoutMs: checkMs(options.requestTimeoutMs ?? 60_000, 'requestTimeoutMs'),
    // The SDK's event socket would keep the process alive, so we poll.
    useDeprecatedPolling: true,
  }
}

function needed(what: string, hint: string): SandboxError {
  return new SandboxError('invalid_argument', `The Daytona provider needs ${what}.`, {
    provider: 'daytona',
    hint,
  })
}

const known: ReadonlyArray<keyof DaytonaProviderOptions> = [
  'apiKey',
  'jwtToken',
  'organizationId',
  'apiUrl',
  'target',
  'runtimes',
  'sdk',
  'requestTimeoutMs',
  'startTimeoutMs',
  'env',
]
