import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { E2BProvider } from '@sandkasten/sdk/e2b'
import { conformance, posixCommands } from '@sandkasten/sdk/testing'
import { afterAll, describe, it } from 'vitest'
import { Store } from '../../../packages/daemon/src/store/index.ts'
import { type SpawnedDaemon, spawnDaemon } from '../../../packages/daemon/src/testing/spawn-daemon.ts'
import { reasonToSkip } from '../../../packages/engine/src/isolators/oci/testing/bench.ts'
import { hostRuntimes, leftoversOf } from '../../../packages/engine/src/provider/test-helper.ts'

/** Our provider on E2B's SDK, our front, a daemon in its own process, and isolated sandboxes. */
const title = 'conformance: e2b (its SDK, our front, isolator oci)'
const runtimes = await hostRuntimes()
const skipped = await reasonToSkip()
if (skipped !== undefined)
  describe(title, () => {
    it('every behaviour of the contract', ({ skip }) => skip(skipped))
  })
else
  describe('through E2B’s SDK', () => {
    const apiKey = 'sk-test-0123456789abcdef'
    let folder: string | undefined
    let daemon: SpawnedDaemon | undefined
    let store: Store | undefined
    const provider = () => {
      const url = daemon!.fronts.e2b!
      const templates = Object.fromEntries(runtimes.map((name) => [name, 'base']))
      return new E2BProvider({ apiKey, apiUrl: url, sandboxUrl: url, runtimes: templates })
    }
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
        folder = await mkdtemp(path.join(tmpdir(), 'sandkasten-e2b-'))
        const db_path = path.join(folder, 'sandkasten.db')
        daemon = await spawnDaemon({
          listen: '127.0.0.1:0',
          preview_listen: 'off',
          fronts: { e2b: { listen: '127.0.0.1:0' } },
          data_dir: folder,
          db_path,
          isolator: 'oci',
          allowed_networks: ['none', 'open', 'policy'],
          api_key: apiKey,
          log_level: 'silent',
          reaper_interval_seconds: 0.25,
        })
        store = await Store.open({ db_path })
        return provider()
      },
      reopen: provider,
      runtimes,
      commands: posixCommands({ server: 'node' }),
      without: { connect: 'the engine’s own suite tries connections, between servers of its own' },
      async leftovers(sessionId) {
        const sandbox = (await store!.sessions.get(sessionId))?.sandbox_id
        if (!sandbox) throw new Error(`The session ${sessionId} never had a sandbox.`)
        return leftoversOf(sandbox)
      },
    })
  })
