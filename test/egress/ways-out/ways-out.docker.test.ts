import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  dockerMissing,
  type PrivateDaemon,
  podmanMissing,
  removeDaemonFolder,
  startDockerd,
  startPodman,
} from '../../../packages/engine/src/isolators/docker/testing/daemons.ts'
import { waysOutOf } from './kit.ts'

for (const { name, missing, start } of [
  { name: 'docker', missing: dockerMissing(), start: startDockerd },
  { name: 'docker on Podman', missing: podmanMissing(), start: startPodman },
]) {
  let folder: string
  let daemon: PrivateDaemon | undefined
  waysOutOf({
    name,
    missing,
    hasRoot: false,
    async options({ enter }) {
      folder = mkdtempSync(join(tmpdir(), 'skt-egress-'))
      daemon = await start(folder, { enter })
      const { socketPath, group } = daemon
      return {
        isolator: 'docker',
        docker: { socketPath, runFolder: join(folder, 'run'), cgroupParent: `/${group}` },
      }
    },
    async stop() {
      await daemon?.stop()
      if (daemon) removeDaemonFolder(folder)
    },
  })
}
