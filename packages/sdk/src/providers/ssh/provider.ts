import { DriverProvider } from '../../core/provider.ts'
import type { SshCapabilities } from './capabilities.ts'
import { SshDriver } from './driver.ts'
import { type SshProviderOptions, settingsOf } from './options.ts'
import type { SshRunnerUse } from './runner/runner.ts'

/**
 * Sandboxes on any Linux host with a shell account: a folder for each, programs that outlive the connection, files over SFTP. **There is no
 * isolation beyond the account**: a command can read, change and reach all that the account can, other sandboxes of it included.
 * Needs the package `ssh2`.
 */
export class SshProvider extends DriverProvider<SshCapabilities> {
  readonly #driver: SshDriver

  constructor(options: SshProviderOptions) {
    const settings = settingsOf(options)
    const driver = new SshDriver(settings)
    super(driver)
    this.#driver = driver
    if (!options.acceptNoIsolation) warnOnce()
  }

  /** Whether sandboxes that are started now get our runner on the host, and if not, why. A sandbox keeps what it was started with. */
  runner(): Promise<SshRunnerUse> {
    return this.#driver.runner.use()
  }

  /** Lets go of connections and forwarded ports. Sandboxes and what runs in them go on; what is asked for later connects again. */
  async close(): Promise<void> {
    await this.#driver.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

let warned = false

function warnOnce(): void {
  if (warned) return
  warned = true
  process.emitWarning(
    'Sandboxes on an SSH host are not isolated: commands in them can do whatever that account can.',
    {
      type: 'SandkastenWarning',
      code: 'SANDKASTEN_NO_ISOLATION',
      detail:
        'Use an account that has nothing to lose, or code that you trust. Pass { acceptNoIsolation: true } to SshProvider when you know this.',
    },
  )
}
