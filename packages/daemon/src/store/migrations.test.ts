import { migrate } from '@sandkasten/database'
import { type Kysely, sql } from 'kysely'
import { expect, it } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { schema } from './migrations.ts'
import { Store } from './store.ts'
import type { ProjectRow, SessionRow } from './tables.ts'
import { project, sessionRow, storeOptions } from './testing/rows.ts'

describeOnEachDatabase('migrations', (place, kind) => {
  it('are recorded in the table of released daemons', async () => {
    const store = await Store.open(storeOptions(await place()))
    const { rows } = await sql`select max(version) as version from schema_version`.execute(store.db)
    expect(rows).toEqual([{ version: schema.migrations.at(-1)!.version }])
    await store.close()
  })

  // SQLite's transactions hold the only write lock, so there is no lock with a number.
  if (kind === 'postgres')
    it('wait for a released daemon that migrates', async () => {
      const where = storeOptions(await place())
      const older = await Store.connect(where)
      let store: Store | undefined
      const opening = older.db.transaction().execute(async (trx) => {
        await sql`select pg_advisory_xact_lock(7274113)`.execute(trx)
        const opening = Store.open(where).then((opened) => {
          store = opened
        })
        await new Promise((resolve) => setTimeout(resolve, 500))
        expect(store).toBeUndefined()
        return { opening }
      })
      await (await opening).opening
      await store!.close()
      await older.close()
    })

  it('keep all rows of every earlier version', async () => {
    const newest = schema.migrations.at(-1)!.version
    for (const { version } of schema.migrations.slice(0, -1)) {
      const old = await Store.connect(storeOptions(await place()))
      const db = old.db as unknown as Kysely<unknown>
      await migrate(db, old.kind, schema, { upTo: version })
      // Columns of later versions do not exist yet.
      const { policy: _, ...oldProject } = project
      await old.keys.insertProject(oldProject as ProjectRow)
      const { stopped_ttl_ms, starting, subject, volumes, run_user, writable_paths, network_policy, ...row } =
        sessionRow()
      await old.sessions.insert(row as SessionRow)
      if (version >= 2)
        await sql`insert into execs (session_id, exec_id, kind, status, detached, incarnation, command, fingerprint, created_at, ended_at, result)
          values ('aaaa', 'e', 'run', 'done', 0, 1, '["x"]', 'f', 1, 2, ${'r'.repeat(5000)})`.execute(db)
      expect(await migrate(db, old.kind, schema)).toBe(newest)
      expect(await migrate(db, old.kind, schema)).toBe(newest)
      expect(await old.sessions.get('aaaa')).toEqual(sessionRow())
      expect(await old.keys.project('p')).toEqual(project)
      expect(await old.execs.running('aaaa')).toEqual([])
      // Later versions have these columns already.
      if (version >= 2 && version < 6) expect(await old.execs.keptBytes()).toEqual(new Map([['p', 5405]]))
      await old.close()
    }
  })

  it('of a newer daemon are refused', async () => {
    const where = storeOptions(await place())
    const store = await Store.open(where)
    const newer = { version: 999, name: 'later', up: async () => {} }
    const migrations = [...schema.migrations, newer]
    await migrate(store.db as unknown as Kysely<unknown>, store.kind, { ...schema, migrations })
    await store.close()
    await expect(Store.open(where)).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringMatching(/version 999; this daemon supports/),
    })
  })
})
