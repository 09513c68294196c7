import { DriverProvider } from '../../core/provider.ts'
import { checkRuntimes } from '../../shared/runtime.ts'
import { Account } from './account.ts'
import type { E2BCapabilities } from './capabilities.ts'
import { E2BDriver } from './driver.ts'
import { accessOf, type E2BProviderOptions } from './options.ts'

/** Sandboxes of E2B, or of another service with the same API, through its SDK (`npm install e2b@2`). */
export class E2BProvider extends DriverProvider<E2BCapabilities> {
  constructor(options: E2BProviderOptions = {}) {
    const { template = 'base', sdk } = options
    const runtimes = checkRuntimes(options.runtimes, 'e2b')
    super(
      new E2BDriver(new Account(accessOf(options), sdk), { template, runtimes, secrets: options.secrets }),
    )
  }
}
