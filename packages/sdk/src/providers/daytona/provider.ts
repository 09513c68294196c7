import { DriverProvider } from '../../core/provider.ts'
import { checkMs, checkPort } from '../../core/validate.ts'
import { SandboxError } from '../../errors.ts'
import { nativeId } from '../../shared/ids.ts'
import type { CallOptions } from '../../spec/index.ts'
import type { DaytonaCapabilities } from './capabilities.ts'
import { DaytonaDriver } from './driver.ts'
import { translating } from './errors.ts'
import { type DaytonaClient, type DaytonaModule, loadSdk } from './sdk.ts'

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
  /** The vendor's SDK, or a function that imports it, for those who bundle. Default: the installed one. */
  sdk?: DaytonaModule | (() => Promise<DaytonaModule>)
  /** How long one request may take that is not known to wait. Default 60 s. */
  requestTimeoutMs?: number
  /** How long a sandbox may take to start, stop or be saved. Default 5 min. */
  startTimeoutMs?: number
}

const cloud = 'https://app.daytona.io/api'

/** Sandboxes of Daytona, in its cloud or on one's own machines, through its own SDK. */
export class DaytonaProvider extends DriverProvider<DaytonaCapabilities> {
  readonly #driver: DaytonaDriver
  readonly #close: () => Promise<void>

  constructor(options: DaytonaProviderOptions = {}) {
    const config = configOf(options)
    const startMs = checkMs(options.startTimeoutMs ?? 300_000, 'startTimeoutMs')
    const made = async () => new (await loadSdk(options.sdk)).Daytona(config)
    let client: Promise<DaytonaClient> | undefined
    const connected = () => {
      client ??= translating('Daytona’s client', undefined, made())
      // Whoever installs what is missing may try again.
      client.catch(() => {
        client = undefined
      })
      return client
    }
    const driver = new DaytonaDriver(connected, { startMs, requestMs: config.requestTimeoutMs })
    super(driver)
    this.#driver = driver
    this.#close = async () => (await client)?.[Symbol.asyncDispose]()
  }

  /** Puts the idle stop of a sandbox off, as its use does. */
  async refreshActivity(sandboxId: string, options: CallOptions = {}): Promise<void> {
    await this.#driver.refreshActivity(nativeId(this.name, sandboxId), options)
  }

  /** A link to a port that needs no header and ends by itself: for people. */
  async getSignedUrl(
    sandboxId: string,
    port: number,
    options: CallOptions & { expiresInSeconds?: number } = {},
  ): Promise<string> {
    const { expiresInSeconds = 3600, ...call } = options
    return this.#driver.signedUrl(nativeId(this.name, sandboxId), checkPort(port), expiresInSeconds, call)
  }

  /** Lets the vendor's client go. It keeps no process alive; this is for those who want nothing left. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close()
  }
}

/** Said in full, so that the SDK looks for nothing in files or variables of its own. */
function configOf(options: DaytonaProviderOptions) {
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
