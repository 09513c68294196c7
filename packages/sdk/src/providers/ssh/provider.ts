import { DriverProvider } from '../../core/provider.ts'
import type { SshCapabilities } from './capabilities.ts'
import { SshDriver } from './driver.ts'
import { type SshProviderOptions, settingsOf } from './options.ts'
import type { SshRunnerUse } from './runner/runner.ts'

/**
 * Sandboxes on any Linux host with a shell account. Each sandbox is a folder. Programs outlive the connection, and files
 * use SFTP. **There is no isolation beyond the account**: a command can do everything that the account can, also to other
 * sandboxes. Needs the package `ssh2`.
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

  /** Whether new sandboxes use our runner on the host, and if not, why. Running sandboxes do not change. */
  runner(): Promise<SshRunnerUse> {
    return this.#driver.runner.use()
  }

  /** Closes connections and forwarded ports. Sandboxes and their programs continue; later calls reconnect. */
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
        'Use an account without access to valuable data, or run only trusted code. Pass { acceptNoIsolation: true } to SshProvider to hide this warning.',
    },
  )
}
