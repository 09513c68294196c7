import type { SecretSource } from '../../core/network/secret-values.ts'
import { checkKnown } from '../../core/validate.ts'
import { SandboxError } from '../../errors.ts'
import type { E2BAccess } from './account.ts'

export interface E2BProviderOptions {
  /** Default: `E2B_API_KEY`. */
  apiKey?: string
  /** The address of the control plane. Default: `E2B_API_URL`, or the vendor's own. */
  apiUrl?: string
  /** The address of the sandboxes, if one address serves all of them. Default: `E2B_SANDBOX_URL`. */
  sandboxUrl?: string
  /** Default: `E2B_DOMAIN`, or the vendor's own. */
  domain?: string
  /** The template of a sandbox that is created without `image`. Default: `base`. */
  template?: string
  /**
   * The templates of runtimes: `{ node24: 'my-node-24' }`. Without it, `create` accepts no `runtime`: E2B's public
   * templates promise no versions.
   */
  runtimes?: Readonly<Record<string, string>>
  /** The timeout of one request. Default: the SDK's, one minute. */
  requestTimeoutMs?: number
  /** The values of secrets in network policies. E2B stores them with the policy. */
  secrets?: SecretSource
  /** The package `e2b`, or a function that imports it, for bundlers. Default: the installed package. */
  sdk?: unknown
  /** The variables that missing options come from. Default: those of this process. */
  env?: Readonly<Record<string, string | undefined>>
}

const vendorDomain = 'e2b.app'

export function accessOf(options: E2BProviderOptions): E2BAccess {
  checkKnown(options, known, 'E2BProvider')
  const env = e2bOptionsOf(options.env ?? environment())
  const apiKey = options.apiKey ?? env.apiKey
  if (!apiKey)
    throw new SandboxError('invalid_argument', 'The E2B provider needs `apiKey`.', {
      provider: 'e2b',
      hint: 'Pass apiKey, or set E2B_API_KEY.',
    })
  const { requestTimeoutMs } = options
  // Always given: the SDK would look for them in the variables of this process, and send the key there.
  const domain = options.domain || env.domain || vendorDomain
  const apiUrl = address(options.apiUrl ?? env.apiUrl, 'apiUrl') ?? `https://api.${domain}`
  const sandboxUrl = address(options.sandboxUrl ?? env.sandboxUrl, 'sandboxUrl')
  return { apiKey, apiUrl, sandboxUrl, domain, requestTimeoutMs }
}

export function e2bOptionsOf(env: Readonly<Record<string, string | undefined>>): E2BProviderOptions {
  const { E2B_API_KEY: apiKey, E2B_API_URL: apiUrl, E2B_SANDBOX_URL: sandboxUrl, E2B_DOMAIN: domain } = env
  return {
    apiKey: apiKey || undefined,
    apiUrl: apiUrl || undefined,
    sandboxUrl: sandboxUrl || undefined,
    domain: domain || undefined,
  }
}

/** Empty in runtimes other than Node. */
function environment(): Record<string, string | undefined> {
  return (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {}
}

function address(url: string | undefined, option: string): string | undefined {
  if (!url) return undefined
  if (/^https?:\/\/./.test(url) && URL.canParse(url)) return url.replace(/\/+$/, '')
  throw new SandboxError('invalid_argument', `\`${option}\` must begin with http:// or https://.`, {
    provider: 'e2b',
  })
}

const known: ReadonlyArray<keyof E2BProviderOptions> = [
  'apiKey',
  'apiUrl',
  'sandboxUrl',
  'domain',
  'template',
  'runtimes',
  'requestTimeoutMs',
  'secrets',
  'sdk',
  'env',
]
