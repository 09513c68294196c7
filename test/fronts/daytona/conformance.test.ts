import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { DaytonaProvider } from '@sandkasten/sdk/daytona'
import { conformance, posixCommands } from '@sandkasten/sdk/testing'
import { afterAll, describe, it, vi } from 'vitest'
import { Store } from '../../../packages/daemon/src/store/index.ts'
import { type SpawnedDaemon, spawnDaemon } from '../../../packages/daemon/src/testing/spawn-daemon.ts'
import { reasonToSkip } from '../../../packages/engine/src/isolators/oci/testing/bench.ts'
import { hostRuntimes, leftoversOf } from '../../../packages/engine/src/provider/test-helper.ts'

/**
 * The whole contract: our provider, the vendor's unmodified SDK, our front in its own process, real isolated
 * sandboxes.
 */
const title = 'conformance: daytona (its own SDK, on the front of a daemon with the isolator oci)'
const runtimes = await hostRuntimes()
const skipped = await reasonToSkip()
// Everything passes two HTTP servers and the vendor's SDK, which is slow on a busy machine.
const limits = { behaviourMs: 170_000 }
vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 })

if (skipped !== undefined)
  describe(title, () => {
    it('every behaviour of the contract', ({ skip }) => skip(skipped))
  })
else {
  const apiKey = 'sk-test-0123456789abcdef'
  let folder: string | undefined
  let daemon: SpawnedDaemon | undefined
  let store: Store | undefined
  const provider = () =>
    new DaytonaProvider({
      apiKey,
      apiUrl: `${daemon!.fronts.daytona}/api`,
      target: 'local',
      runtimes: Object.fromEntries(runtimes.map((name) => [name, 'host'])),
    })
  describe('on the front', () => {
    // Registered first, so it runs last: the kit ends its sandboxes before.
    afterAll(async () => {
      await store?.close()
      await daemon?.end('SIGTERM')
      if (folder) await rm(folder, { recursive: true, force: true })
    })
    conformance({
      title,
      runner: { describe, it, afterAll },
      async provider() {
        folder = await mkdtemp(path.join(tmpdir(), 'sandkasten-daytona-'))
        const database = { db_path: path.join(folder, 'sandkasten.db') }
        daemon = await spawnDaemon({
          listen: '127.0.0.1:0',
          preview_listen: '127.0.0.1:0',
          data_dir: folder,
          isolator: 'oci',
          allowed_networks: ['none', 'open', 'policy'],
          api_key: apiKey,
          log_level: 'silent',
          fronts: { daytona: { listen: '127.0.0.1:0' } },
          ...database,
        })
        store = await Store.open(database)
        return provider()
      },
      reopen: provider,
      runtimes,
      limits,
      commands: posixCommands({ server: 'node' }),
      without: { connect: 'the engine’s own suite tries connections, between servers of its own' },
      async leftovers(sessionId) {
        const sandbox = (await store!.sessions.get(sessionId))?.sandbox_id
        if (!sandbox) throw new Error(`The session ${sessionId} never had a sandbox.`)
        return leftoversOf(sandbox)
      },
    })
  })
}
