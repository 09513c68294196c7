import { DriverProvider } from '../../core/provider.ts'
import { checkKnown } from '../../core/validate.ts'
import { SandboxError } from '../../errors.ts'
import { Account } from './account.ts'
import type { VercelCapabilities } from './capabilities.ts'
import { VercelDriver } from './driver.ts'
import { credentialSource, known, type VercelProviderOptions } from './options.ts'
import { Transport } from './transport.ts'

/** Vercel's sandboxes, through its own SDK, which is loaded on first use. */
export class VercelProvider extends DriverProvider<VercelCapabilities> {
  constructor(options: VercelProviderOptions = {}) {
    checkKnown(options, known, 'VercelProvider')
    const { baseUrl, namePrefix = 'sk-', requestTimeoutMs = 60_000, silenceMs = 60_000 } = options
    if (!/^[a-z][a-z0-9-]{0,19}$/.test(namePrefix))
      throw invalid(
        '`namePrefix` must be up to 20 lowercase letters, digits and dashes, and begin with a letter.',
      )
    for (const [option, ms] of Object.entries({ requestTimeoutMs, silenceMs }))
      if (!Number.isFinite(ms) || ms <= 0 || ms > 2 ** 31 - 1)
        throw invalid(`\`${option}\` must be a number of milliseconds.`)
    if (baseUrl !== undefined && !/^https?:\/\//.test(baseUrl))
      throw invalid('`baseUrl` must begin with http:// or https://.')
    const credentials = credentialSource(options)
    const transport = new Transport({
      baseUrl: baseUrl?.replace(/\/+$/, ''),
      fetch: options.fetch ?? ((...args) => globalThis.fetch(...args)),
      requestTimeoutMs,
      token: async () => (await credentials()).token,
    })
    const account = new Account(credentials, transport, options.sdk)
    super(new VercelDriver({ account, namePrefix, silenceMs, secrets: options.secrets }))
  }
}

function invalid(message: string): SandboxError {
  return new SandboxError('invalid_argument', message, { provider: 'vercel' })
}
