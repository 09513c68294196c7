import { SandboxError } from '@sandkasten/sdk'
import { type Kysely, sql } from 'kysely'
import { type Migration, migrations, type StoreKind } from './migrations.ts'

/** Migrates a database to the newest version, or to `upTo`. A lock serializes daemons that start at the same time. */
export async function migrate(
  db: Kysely<unknown>,
  kind: StoreKind,
  options: { upTo?: number; steps?: readonly Migration[] } = {},
): Promise<number> {
  const { steps = migrations, upTo = steps.at(-1)!.version } = options
  return db.transaction().execute(async (trx) => {
    // SQLite's transaction holds the only write lock already.
    if (kind === 'postgres') await sql`select pg_advisory_xact_lock(7274113)`.execute(trx)
    await trx.schema
      .createTable('schema_version')
      .ifNotExists()
      .addColumn('version', 'integer', (c) => c.primaryKey())
      .addColumn('name', 'text', (c) => c.notNull())
      .execute()
    const versions = trx as unknown as Kysely<{ schema_version: { version: number; name: string } }>
    const done = await versions.selectFrom('schema_version').select('version').orderBy('version').execute()
    const current = done.at(-1)?.version ?? 0
    if (current > steps.at(-1)!.version)
      throw new SandboxError(
        'conflict',
        `The database has version ${current}; this daemon supports up to ${steps.at(-1)!.version}.`,
        {
          hint: 'Use the newer daemon, or another database.',
        },
      )
    for (const step of steps) {
      if (step.version <= current || step.version > upTo) continue
      await step.up(trx, kind)
      await versions.insertInto('schema_version').values({ version: step.version, name: step.name }).execute()
    }
    return Math.max(current, upTo)
  })
}
