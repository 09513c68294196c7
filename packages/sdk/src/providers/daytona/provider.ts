import { DriverProvider } from '../../core/provider.ts'
import { checkMs, checkPort } from '../../core/validate.ts'
import { nativeId } from '../../shared/ids.ts'
import type { CallOptions } from '../../spec/index.ts'
import type { DaytonaCapabilities } from './capabilities.ts'
import { DaytonaDriver } from './driver.ts'
import { translating } from './errors.ts'
import { configOf, type DaytonaProviderOptions } from './options.ts'
import { runtimesOf } from './runtimes.ts'
import { type DaytonaClient, loadSdk } from './sdk.ts'

/** Sandboxes in Daytona's cloud or on your own Daytona, through the vendor's SDK. */
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
      // Allow another try after the user has installed the missing package.
      client.catch(() => {
        client = undefined
      })
      return client
    }
    const timeLimits = { startMs, requestMs: config.requestTimeoutMs }
    const driver = new DaytonaDriver(connected, timeLimits, runtimesOf(options))
    super(driver)
    this.#driver = driver
    this.#close = async () => (await client)?.[Symbol.asyncDispose]()
  }

  /** Postpones the idle stop of a sandbox, like any use of it. */
  async refreshActivity(sandboxId: string, options: CallOptions = {}): Promise<void> {
    await this.#driver.refreshActivity(nativeId(this.name, sandboxId), options)
  }

  /** A public link to a port that needs no header and expires. */
  async getSignedUrl(
    sandboxId: string,
    port: number,
    options: CallOptions & { expiresInSeconds?: number } = {},
  ): Promise<string> {
    const { expiresInSeconds = 3600, ...call } = options
    return this.#driver.signedUrl(nativeId(this.name, sandboxId), checkPort(port), expiresInSeconds, call)
  }

  /** Disposes the vendor's client. It does not keep the process alive, so this is optional. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close()
  }
}
