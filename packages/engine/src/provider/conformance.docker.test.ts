import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { conformance, posixCommands } from '@sandkasten/sdk/testing'
import { afterAll, describe, it } from 'vitest'
import { dockerMissing, type PrivateDaemon, startDockerd } from '../isolators/docker/testing/daemons.ts'
import { EngineProvider } from './engine-provider.ts'
import { leftoversOf } from './test-helper.ts'

/** The kit on a dockerd of our own, on its own socket and data folder. */

const title = 'conformance: engine on docker (isolation: container)'
const reason = dockerMissing()
if (reason === undefined) {
  const folder = mkdtempSync(join(tmpdir(), 'skt-docker-'))
  let daemon: PrivateDaemon | undefined
  afterAll(async () => {
    await daemon?.stop()
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }, 60_000)
  const open = () =>
    new EngineProvider({
      isolator: 'docker',
      root: join(folder, 'root'),
      docker: { socketPath: join(folder, 'docker.sock'), runFolder: join(folder, 'run') },
    })
  conformance({
    title,
    runner: { describe, it, afterAll },
    async provider() {
      daemon = await startDockerd(folder)
      return open()
    },
    reopen: open,
    commands: posixCommands({ server: 'node' }),
    leftovers: (sandboxId) => leftoversOf(sandboxId),
  })
} else {
  describe(title, () => {
    it('every behaviour of the contract', ({ skip }) => skip(reason))
  })
}
