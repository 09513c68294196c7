/** The conformance kit on a private daemon with its own socket and data folder. For tests. */
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ConformanceOptions, conformance, posixCommands } from '@sandkasten/sdk/testing'
import { afterAll, describe, it } from 'vitest'
import type { DockerIsolatorOptions } from '../../isolators/docker/isolator.ts'
import {
  dockerMissing,
  type PrivateDaemon,
  podmanMissing,
  removeDaemonFolder,
  startDockerd,
  startPodman,
} from '../../isolators/docker/testing/daemons.ts'
import { EngineProvider } from '../engine-provider.ts'
import { egressTargets, leftoversOf } from '../test-helper.ts'

const { targets, close } = await egressTargets()
afterAll(close)

export function kitOn(
  kind: 'docker' | 'podman',
  subject: string,
  options: Partial<DockerIsolatorOptions> & Pick<ConformanceOptions, 'only'> = {},
): void {
  const title = `conformance: engine on ${subject} (isolation: container)`
  const missing = kind === 'docker' ? dockerMissing() : podmanMissing()
  if (missing !== undefined) {
    describe(title, () => {
      it('every behaviour of the contract', ({ skip }) => skip(missing))
    })
    return
  }
  const { only, ...settings } = options
  const folder = mkdtempSync(join(tmpdir(), `skt-${kind}-`))
  let daemon: PrivateDaemon | undefined
  afterAll(async () => {
    await daemon?.stop()
    removeDaemonFolder(folder)
  }, 60_000)
  const open = () =>
    new EngineProvider({
      isolator: 'docker',
      root: join(folder, 'root'),
      docker: {
        socketPath: daemon!.socketPath,
        runFolder: join(folder, 'run'),
        cgroupParent: `/${daemon!.group}`,
        ...settings,
      },
    })
  conformance({
    title,
    runner: { describe, it, afterAll },
    async provider() {
      daemon ??= await (kind === 'docker' ? startDockerd : startPodman)(folder)
      return open()
    },
    reopen: open,
    commands: posixCommands({ server: 'node' }),
    leftovers: (sandboxId) => leftoversOf(sandboxId),
    egress: targets,
    only,
  })
}
