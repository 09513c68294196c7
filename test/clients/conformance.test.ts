import { DaemonProvider } from '@sandkasten/sdk/daemon'
import { conformance, posixCommands } from '@sandkasten/sdk/testing'
import { afterAll, describe, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import {
  postgresMissing,
  startPostgres,
  type TestPostgres,
} from '../../packages/daemon/src/testing/postgres.ts'
import { reasonToSkip } from '../../packages/engine/src/isolators/oci/testing/bench.ts'
import { leftoversOfSession } from './leftovers.ts'

/** The whole contract through real HTTP: client, daemon, store, engine, crun. */
const noIsolation = await reasonToSkip()
run('SQLite', noIsolation, async () => ({}))

let postgres: TestPostgres | undefined
afterAll(() => postgres?.stop())
run('Postgres', noIsolation ?? (await postgresMissing()), async () => {
  postgres = await startPostgres()
  return { db_url: await postgres.database('conformance') }
})

function run(
  store: string,
  skipped: string | undefined,
  config: () => Promise<Record<string, unknown>>,
): void {
  const title = `conformance: daemon on ${store} (isolator oci, over HTTP)`
  if (skipped !== undefined) {
    describe(title, () => {
      it('every behaviour of the contract', ({ skip }) => skip(skipped))
    })
    return
  }
  let daemon: TestDaemon | undefined
  const provider = () => new DaemonProvider({ url: daemon!.daemon.url, apiKey: daemon!.key })
  conformance({
    title,
    runner: { describe, it, afterAll },
    async provider() {
      daemon = await startTestDaemon({ isolator: 'oci', reaper_interval_seconds: 0.25, ...(await config()) })
      return provider()
    },
    reopen: provider,
    commands: posixCommands(),
    leftovers: (sandboxId) => leftoversOfSession(daemon!.daemon, sandboxId),
  })
  afterAll(() => daemon?.stop())
}
