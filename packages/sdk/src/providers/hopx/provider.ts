import { DriverProvider } from '../../core/provider.ts'
import { checkRuntimes } from '../../shared/runtime.ts'
import { Account } from './account.ts'
import type { HopxCapabilities } from './capabilities.ts'
import { HopxDriver } from './driver.ts'
import { accessOf, type HopxProviderOptions } from './options.ts'
import { Transport } from './transport.ts'

/** Sandboxes of Hopx, through its SDK (`npm install @hopx-ai/sdk@0`). */
export class HopxProvider extends DriverProvider<HopxCapabilities> {
  constructor(options: HopxProviderOptions = {}) {
    const access = accessOf(options)
    const { template = 'code-interpreter', region } = options
    const runtimes = checkRuntimes(options.runtimes, 'hopx')
    const account = new Account(access, new Transport(access.requestTimeoutMs, options.sdk))
    super(new HopxDriver(account, { template, region, runtimes, startMs: access.startTimeoutMs }))
  }
}
