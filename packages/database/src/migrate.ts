import { SandboxError } from '@sandkasten/sdk'
import { type Kysely, sql } from 'kysely'

export type DatabaseKind = 'sqlite' | 'postgres'

/**
 * A step of a schema's history. Each step runs once, in order, and never changes after its release. Steps cannot be
 * undone; an older program refuses a newer database.
 */
export interface Migration {
  readonly version: number
  readonly name: string
  up(db: Kysely<unknown>, kind: DatabaseKind): Promise<void>
}

/** The tables of one program. Programs that share a database have their own version table, lock and table names. */
export interface Schema {
  /** The program that owns the tables, for errors: `daemon`. */
  readonly program: string
  /** The table that records which migrations ran. */
  readonly versionTable: string
  /** The Postgres advisory lock that serializes the migrations of this schema. */
  readonly lockId: number
  readonly migrations: readonly Migration[]
}

/**
 * Migrates the tables of a schema to the newest version, or to `upTo`, and returns the version. A lock serializes
 * processes that start at the same time.
 */
export async function migrate(
  db: Kysely<unknown>,
  kind: DatabaseKind,
  { program, versionTable, lockId, migrations }: Schema,
  { upTo }: { upTo?: number } = {},
): Promise<number> {
  const newest = migrations.at(-1)?.version ?? 0
  const target = upTo ?? newest
  return db.transaction().execute(async (trx) => {
    // SQLite's transaction holds the only write lock already.
    if (kind === 'postgres') await sql`select pg_advisory_xact_lock(${lockId}::bigint)`.execute(trx)
    await trx.schema
      .createTable(versionTable)
      .ifNotExists()
      .addColumn('version', 'integer', (c) => c.primaryKey())
      .addColumn('name', 'text', (c) => c.notNull())
      .execute()
    const versions = trx as unknown as Kysely<Record<string, { version: number; name: string }>>
    const done = await versions.selectFrom(versionTable).select('version').orderBy('version').execute()
    const current = done.at(-1)?.version ?? 0
    if (current > newest)
      throw new SandboxError(
        'conflict',
        `The database has version ${current}; this ${program} supports up to ${newest}.`,
        {
          hint: `Use the newer ${program}, or another database.`,
        },
      )
    for (const step of migrations) {
      if (step.version <= current || step.version > target) continue
      await step.up(trx, kind)
      await versions.insertInto(versionTable).values({ version: step.version, name: step.name }).execute()
    }
    return Math.max(current, target)
  })
}
