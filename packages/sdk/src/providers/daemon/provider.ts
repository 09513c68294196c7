import { type ConnectionOptions, SandboxClient } from '../../client/index.ts'
import { DriverProvider } from '../../core/provider.ts'
import type { VolumeAdmin } from '../../spec/index.ts'
import type { DaemonCapabilities } from './capabilities.ts'
import { DaemonDriver } from './driver.ts'
import { volumesOf } from './volumes.ts'

/** The daemon's address. Missing options come from `SANDKASTEN_URL` and `SANDKASTEN_API_KEY`. */
export type DaemonProviderOptions = ConnectionOptions

/** The sandboxes of a daemon (`sandkasten up`), on this machine or another, over HTTP. A sandbox is a session there. */
export class DaemonProvider extends DriverProvider<DaemonCapabilities> {
  /** Folders that outlive sandboxes, to be mounted by `providerOptions.volumes`. */
  readonly volumes: VolumeAdmin

  constructor(options: DaemonProviderOptions = {}) {
    const client = new SandboxClient(options)
    super(new DaemonDriver(client))
    this.volumes = volumesOf(client)
  }
}
