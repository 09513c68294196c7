import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { DaemonProvider } from '@sandkasten/sdk/daemon'
import { conformance, posixCommands } from '@sandkasten/sdk/testing'
import { afterAll, describe, it } from 'vitest'
import { Store } from '../../packages/daemon/src/store/index.ts'
import { type SpawnedDaemon, spawnDaemon } from '../../packages/daemon/src/testing/spawn-daemon.ts'
import {
  postgresMissing,
  startPostgres,
  type TestPostgres,
} from '../../packages/database/src/testing/postgres.ts'
import { reasonToSkip } from '../../packages/engine/src/isolators/oci/testing/bench.ts'
import { hostRuntimes, leftoversOf } from '../../packages/engine/src/provider/test-helper.ts'

/** The whole contract over real HTTP: the client, and in its own process the daemon with store, engine and crun. */
const runtimes = await hostRuntimes()
const noIsolation = await reasonToSkip()
run('SQLite', noIsolation, async () => ({}))

let postgres: TestPostgres | undefined
run('Postgres', noIsolation ?? (await postgresMissing()), async () => {
  postgres = await startPostgres()
  return { db_url: await postgres.database('conformance') }
})

function run(name: string, skipped: string | undefined, config: () => Promise<{ db_url?: string }>): void {
  const title = `conformance: daemon on ${name} (isolator oci, over HTTP)`
  if (skipped !== undefined) {
    describe(title, () => {
      it('every behaviour of the contract', ({ skip }) => skip(skipped))
    })
    return
  }
  const apiKey = 'sk-test-0123456789abcdef'
  let folder: string | undefined
  let daemon: SpawnedDaemon | undefined
  let store: Store | undefined
  const provider = () => new DaemonProvider({ url: daemon!.url, apiKey })
  describe(`on ${name}`, () => {
    // Registered first, so it runs last: the kit ends its sandboxes before.
    afterAll(async () => {
      await store?.close()
      await daemon?.end('SIGTERM')
      if (folder) await rm(folder, { recursive: true, force: true })
      if (name === 'Postgres') await postgres?.stop()
    })
    conformance({
      title,
      runner: { describe, it, afterAll },
      async provider() {
        folder = await mkdtemp(path.join(tmpdir(), 'sandkasten-kit-'))
        const database = { db_path: path.join(folder, 'sandkasten.db'), ...(await config()) }
        daemon = await spawnDaemon({
          listen: '127.0.0.1:0',
          preview_listen: '127.0.0.1:0',
          data_dir: folder,
          isolator: 'oci',
          allowed_networks: ['none', 'open', 'policy'],
          allow_root: true,
          api_key: apiKey,
          log_level: 'silent',
          reaper_interval_seconds: 0.25,
          ...database,
        })
        store = await Store.open(database)
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
}
