import {
  Database,
  type DatabaseKind,
  type DatabaseLocation,
  databaseError,
  migrate,
  Reserve,
} from '@sandkasten/database'
import { SealedValues } from '@sandkasten/database/sealed'
import { SandboxError } from '@sandkasten/sdk'
import { type Kysely, sql } from 'kysely'
import { DueRows } from './due.ts'
import { type WithReserve, withReserve, withSandboxErrors } from './errors.ts'
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

/** Enough to open the database and to destroy sandboxes on a full disk. */
const reservedBytes = 512 * 1024

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

  constructor(database: Database<Tables>, { reserve, now = Date.now }: StoreOptions & WithReserve = {}) {
    const { db, kind } = database
    this.#database = database
    this.kind = kind
    this.sandboxes = withSandboxErrors(new Sandboxes(db, now), reserve)
    this.threads = withSandboxErrors(new Threads(db), reserve)
    this.holds = withSandboxErrors(new Holds(db), reserve)
    this.due = withSandboxErrors(new DueRows(db), reserve)
    this.providers = withSandboxErrors(new ProviderRows(db), reserve)
    this.secrets = withSandboxErrors(new SecretRows(db), reserve)
    this.facts = withSandboxErrors(new Facts(db), reserve)
    this.sealed = withSandboxErrors(new SealedValues(db, kind, sealedSchema), reserve)
  }

  close(): Promise<void> {
    return this.#database.close()
  }
}

/** Opens the database, and migrates its tables to the newest version. Default: see `defaultLocation`. */
export async function openStore(location?: DatabaseLocation, options?: StoreOptions): Promise<Store> {
  const where = location ?? (await defaultLocation())
  const file = 'file' in where ? where.file : undefined
  // It stays when this process ends, because each short command would write it again.
  const reserve =
    file === undefined ? undefined : new Reserve(file, { mostBytes: reservedBytes, stays: true })
  const database = await withReserve(() => openMigrated(where), { reserve, file })
  reserve?.take()
  return new Store(database, { ...options, reserve })
}

async function openMigrated(where: DatabaseLocation): Promise<Database<Tables>> {
  const database = await Database.connect<Tables>(where)
  try {
    if (!(await isMigrated(database.db)))
      await migrate(database.db as unknown as Kysely<unknown>, database.kind, schema)
    return database
  } catch (error) {
    await database.close().catch(() => {})
    throw error
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
