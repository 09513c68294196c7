import { type ConnectionOptions, SandboxClient } from '../../client/index.ts'
import { DriverProvider } from '../../core/provider.ts'
import type { DaemonCapabilities } from './capabilities.ts'
import { DaemonDriver } from './driver.ts'

/** The daemon's address. Missing options come from `SANDKASTEN_URL` and `SANDKASTEN_API_KEY`. */
export type DaemonProviderOptions = ConnectionOptions

/** The sandboxes of a daemon (`sandkasten up`), on this machine or another, over HTTP. A sandbox is a session there. */
export class DaemonProvider extends DriverProvider<DaemonCapabilities> {
  constructor(options: DaemonProviderOptions = {}) {
    super(new DaemonDriver(new SandboxClient(options)))
  }
}
