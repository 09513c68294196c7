import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { conformance, posixCommands } from '@sandkasten/sdk/testing'
import { VercelProvider } from '@sandkasten/sdk/vercel'
import { afterAll, describe, it, vi } from 'vitest'
import { Store } from '../../../packages/daemon/src/store/index.ts'
import { type SpawnedDaemon, spawnDaemon } from '../../../packages/daemon/src/testing/spawn-daemon.ts'
import { reasonToSkip } from '../../../packages/engine/src/isolators/oci/testing/bench.ts'
import { leftoversOf } from '../../../packages/engine/src/provider/test-helper.ts'

/** The whole contract through our provider, the vendor's SDK, our front, and a sandbox isolated by crun. */
const title = 'conformance: vercel (@vercel/sandbox → the front → isolator oci)'
const skipped = await reasonToSkip()
// Output comes as text in chunks: 64 MiB are thousands of small programs, which is slow on a busy machine.
const limits = { behaviourMs: 170_000 }
vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 })

if (skipped !== undefined)
  describe(title, () => {
    it('every behaviour of the contract', ({ skip }) => skip(skipped))
  })
else run()

function run(): void {
  const token = 'sk-test-0123456789abcdef'
  let folder: string | undefined
  let daemon: SpawnedDaemon | undefined
  let store: Store | undefined
  const provider = () =>
    new VercelProvider({ token, teamId: 'team', projectId: 'project', baseUrl: daemon!.fronts.vercel! })
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
        folder = await mkdtemp(path.join(tmpdir(), 'sandkasten-kit-'))
        const database = { db_path: path.join(folder, 'sandkasten.db') }
        daemon = await spawnDaemon({
          listen: '127.0.0.1:0',
          preview_listen: '127.0.0.1:0',
          fronts: { vercel: { listen: '127.0.0.1:0' } },
          data_dir: folder,
          isolator: 'oci',
          allowed_networks: ['none', 'open', 'policy'],
          api_key: token,
          log_level: 'silent',
          reaper_interval_seconds: 0.25,
          ...database,
        })
        store = await Store.open(database)
        return provider()
      },
      reopen: provider,
      limits,
      commands: posixCommands({ server: 'node' }),
      without: {
        connect: 'the engine’s own suite tries connections, between servers of its own',
        version: 'the front gives its default image for the vendor’s runtimes that no image has',
      },
      runtimes: ['node24', 'node22', 'python3.13'],
      async leftovers(sandboxId) {
        const name = sandboxId.slice(0, sandboxId.indexOf('.'))
        const [session] = await store!.sessions.list({ projectId: 'default', name, limit: 1 })
        if (!session?.sandbox_id) throw new Error(`The sandbox ${name} never had a session.`)
        return leftoversOf(session.sandbox_id)
      },
    })
  })
}
