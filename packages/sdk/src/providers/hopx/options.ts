import { checkKnown, checkMs } from '../../core/validate.ts'
import { SandboxError } from '../../errors.ts'

export interface HopxProviderOptions {
  /** Default: `HOPX_API_KEY`. */
  apiKey?: string
  /** The address of the API. Default: `HOPX_BASE_URL`, or the vendor's cloud. */
  apiUrl?: string
  /** The region of new sandboxes. Default: the vendor's choice. */
  region?: string
  /** The template of a sandbox that is created without `image`. Default: `code-interpreter`. */
  template?: string
  /**
   * The templates of runtimes: `{ node24: 'my-node-24' }`. Without it, `create` accepts no `runtime`: Hopx's public
   * templates promise no versions.
   */
  runtimes?: Readonly<Record<string, string>>
  /** The timeout of one request. Default 60 s. */
  requestTimeoutMs?: number
  /** How long a new sandbox may take to run. Default 5 min. */
  startTimeoutMs?: number
  /** The package `@hopx-ai/sdk`, or a function that imports it, for bundlers. Default: the installed package. */
  sdk?: unknown
  /** The variables that missing options come from. Default: those of this process. */
  env?: Readonly<Record<string, string | undefined>>
}

export interface HopxAccess {
  readonly apiKey: string
  readonly apiUrl: string
  readonly requestTimeoutMs: number
  readonly startTimeoutMs: number
}

const cloud = 'https://api.hopx.dev'

export function accessOf(options: HopxProviderOptions): HopxAccess {
  checkKnown(options, known, 'HopxProvider')
  const env =
    options.env ??
    (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ??
    {}
  // Always given: the SDK would look for a key in the variables of this process.
  const apiKey = options.apiKey || env.HOPX_API_KEY
  if (!apiKey)
    throw new SandboxError('invalid_argument', 'The Hopx provider needs `apiKey`.', {
      provider: 'hopx',
      hint: 'Pass apiKey, or set HOPX_API_KEY.',
    })
  return {
    apiKey,
    apiUrl: addressOf(options.apiUrl || env.HOPX_BASE_URL || cloud),
    requestTimeoutMs: checkMs(options.requestTimeoutMs ?? 60_000, 'requestTimeoutMs'),
    startTimeoutMs: checkMs(options.startTimeoutMs ?? 300_000, 'startTimeoutMs'),
  }
}

function addressOf(url: string): string {
  if (/^https?:\/\/./.test(url) && URL.canParse(url)) return url.replace(/\/+$/, '')
  throw new SandboxError('invalid_argument', '`apiUrl` must begin with http:// or https://.', {
    provider: 'hopx',
  })
}

const known: ReadonlyArray<keyof HopxProviderOptions> = [
  'apiKey',
  'apiUrl',
  'region',
  'template',
  'runtimes',
  'requestTimeoutMs',
  'startTimeoutMs',
  'sdk',
  'env',
]
