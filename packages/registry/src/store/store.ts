import {
  Database,
  type DatabaseKind,
  type DatabaseLocation,
  databaseError,
  migrate,
} from '@sandkasten/database'
import { SealedValues } from '@sandkasten/database/sealed'
import { SandboxError } from '@sandkasten/sdk'
import { type Kysely, sql } from 'kysely'
import { DueRows } from './due.ts'
import { storeError, withSandboxErrors } from './errors.ts'
import { Facts } from './facts.ts'
import { Holds } from './holds.ts'
import { defaultLocation } from './location.ts'
import { schema } from './migrations.ts'
import { ProviderRows } from './providers.ts'
import { Sandboxes } from './sandboxes.ts'
import { sealedSchema } from './sealed-columns.ts'
import { SecretRows } from './secrets.ts'
import type { Tables } from './tables.ts'
import { Threads } from './threads.ts'

export interface StoreOptions {
  /** Milliseconds since 1970, for `updated_at` and `destroyed_at`. Default: `Date.now`. */
  readonly now?: () => number
}

/** The registry's database. Every method throws a `SandboxError` only, and then it has changed nothing. */
export class Store {
  readonly kind: DatabaseKind
  readonly sandboxes: Sandboxes
  readonly threads: Threads
  readonly holds: Holds
  readonly due: DueRows
  readonly providers: ProviderRows
  readonly secrets: SecretRows
  readonly facts: Facts
  readonly sealed: SealedValues
  readonly #database: Database<Tables>

  constructor(database: Database<Tables>, { now = Date.now }: StoreOptions = {}) {
    const { db, kind } = database
    this.#database = database
    this.kind = kind
    this.sandboxes = withSandboxErrors(new Sandboxes(db, now))
    this.threads = withSandboxErrors(new Threads(db))
    this.holds = withSandboxErrors(new Holds(db))
    this.due = withSandboxErrors(new DueRows(db))
    this.providers = withSandboxErrors(new ProviderRows(db))
    this.secrets = withSandboxErrors(new SecretRows(db))
    this.facts = withSandboxErrors(new Facts(db))
    this.sealed = withSandboxErrors(new SealedValues(db, kind, sealedSchema))
  }

  close(): Promise<void> {
    return this.#database.close()
  }
}

/** Opens the database, and migrates its tables to the newest version. Default: see `defaultLocation`. */
export async function openStore(location?: DatabaseLocation, options?: StoreOptions): Promise<Store> {
  const where = location ?? (await defaultLocation())
  let database: Database<Tables> | undefined
  try {
    // Not `Database.open`: that reserves 4 MiB of disk, which each short command would write and remove again.
    database = await Database.connect<Tables>(where)
    if (!(await isMigrated(database.db)))
      await migrate(database.db as unknown as Kysely<unknown>, database.kind, schema)
    return new Store(database, options)
  } catch (error) {
    await database?.close().catch(() => {})
    throw storeError(error)
  }
}

/** Whether the tables have this version. Only reads, so a writer does not keep short commands waiting. */
async function isMigrated(db: Kysely<Tables>): Promise<boolean> {
  const { versionTable, migrations } = schema
  try {
    const { rows } = await sql<{ version: number }>`
      select max(version) as version from ${sql.table(versionTable)}`.execute(db)
    return rows[0]?.version === migrations.at(-1)?.version
  } catch (error) {
    // A new database has no such table. `migrate` reports other errors, if they last.
    if (SandboxError.is(databaseError(error))) throw error
    return false
  }
}
