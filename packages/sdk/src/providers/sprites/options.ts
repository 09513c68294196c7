import { checkKnown } from '../../core/validate.ts'
import { SandboxError } from '../../errors.ts'
import type { SpritesAccess } from './account.ts'

export interface SpritesProviderOptions {
  /** A token of the organization. Default: `SPRITES_TOKEN`. */
  token?: string
  /** The address of the API. Default: `SPRITES_API_URL`, or the vendor's own. */
  baseUrl?: string
  /** The prefix of our sandboxes' names; `list()` returns only these. Default `sk-`. */
  namePrefix?: string
  /** The timeout of a response. Default 60,000. */
  requestTimeoutMs?: number
  /** The package `@fly/sprites`, or a function that imports it, for bundlers. Default: the installed package. */
  sdk?: unknown
  /** The variables that missing options come from. Default: those of this process. */
  env?: Readonly<Record<string, string | undefined>>
}

const vendorUrl = 'https://api.sprites.dev'

export function accessOf(options: SpritesProviderOptions): SpritesAccess & { readonly namePrefix: string } {
  checkKnown(options, known, 'SpritesProvider')
  const env = spritesOptionsOf(options.env ?? environment())
  const token = options.token ?? env.token
  const { namePrefix = 'sk-', requestTimeoutMs = 60_000 } = options
  if (!token)
    throw new SandboxError('invalid_argument', 'The Sprites provider needs `token`.', {
      provider: 'sprites',
      hint: 'Pass token, or set SPRITES_TOKEN.',
    })
  if (typeof token !== 'string' || !/^[\x21-\x7e]{1,8192}$/.test(token))
    throw invalid('`token` contains characters that a header cannot carry.')
  const baseUrl = (options.baseUrl ?? env.baseUrl) || vendorUrl
  if (!/^https?:\/\/./.test(baseUrl) || !URL.canParse(baseUrl))
    throw invalid('`baseUrl` must begin with http:// or https://.')
  if (!/^[a-z][a-z0-9-]{0,19}$/.test(namePrefix))
    throw invalid(
      '`namePrefix` must be up to 20 lowercase letters, digits and dashes, and begin with a letter.',
    )
  if (!Number.isFinite(requestTimeoutMs) || requestTimeoutMs <= 0 || requestTimeoutMs > mostTimeoutMs)
    throw invalid('`requestTimeoutMs` must be a number of milliseconds, at most one day.')
  return { token, baseUrl: baseUrl.replace(/\/+$/, ''), namePrefix, requestTimeoutMs }
}

export function spritesOptionsOf(env: Readonly<Record<string, string | undefined>>): {
  token?: string
  baseUrl?: string
} {
  const { SPRITES_TOKEN: token, SPRITES_API_URL: baseUrl } = env
  return { token: token || undefined, baseUrl: baseUrl || undefined }
}

/** Empty in runtimes other than Node. */
function environment(): Record<string, string | undefined> {
  return (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {}
}

function invalid(message: string): SandboxError {
  return new SandboxError('invalid_argument', message, { provider: 'sprites' })
}

const mostTimeoutMs = 24 * 60 * 60_000

const known: ReadonlyArray<keyof SpritesProviderOptions> = [
  'token',
  'baseUrl',
  'namePrefix',
  'requestTimeoutMs',
  'sdk',
  'env',
]
