import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { Kysely, type KyselyPlugin, sql } from 'kysely'
import { type Execute, executeOn } from './compiled.ts'
import { storeError } from './errors.ts'
import { Execs } from './execs.ts'
import { Fronts } from './fronts.ts'
import { Keys } from './keys.ts'
import { migrate } from './migrate.ts'
import type { StoreKind } from './migrations.ts'
import { Ports } from './ports.ts'
import { postgresDialect } from './postgres.ts'
import { Records } from './records.ts'
import { Sessions } from './sessions.ts'
import { Snapshots } from './snapshots.ts'
import { SqliteDialect } from './sqlite-driver.ts'
import type { Tables } from './tables.ts'

/** All that the daemon remembers. Every method may throw `unavailable` or `disk_full`; then nothing was changed. */
export class Store {
  readonly kind: StoreKind
  readonly db: Kysely<Tables>
  readonly keys: Keys
  readonly sessions: Sessions
  readonly execs: Execs
  readonly snapshots: Snapshots
  readonly ports: Ports
  readonly fronts: Fronts
  readonly records: Records

  private constructor(kind: StoreKind, db: Kysely<Tables>, execute: Execute = executeOn(db)) {
    this.kind = kind
    this.db = db
    this.keys = guarded(new Keys(db, execute))
    this.sessions = guarded(new Sessions(db, execute))
    this.execs = guarded(new Execs(db))
    this.snapshots = guarded(new Snapshots(db))
    this.ports = guarded(new Ports(db))
    this.fronts = guarded(new Fronts(db))
    this.records = guarded(new Records(db))
  }

  /** Opens it and brings its tables to the newest version. */
  static async open(options: { db_url?: string; db_path: string }): Promise<Store> {
    const store = await Store.connect(options)
    try {
      await migrate(store.db as unknown as Kysely<unknown>, store.kind)
      return store
    } catch (error) {
      await store.close()
      throw storeError(error)
    }
  }

  static async connect(
    options: { db_url?: string; db_path: string },
    plugins: KyselyPlugin[] = [],
  ): Promise<Store> {
    if (options.db_url !== undefined)
      return new Store('postgres', new Kysely<Tables>({ dialect: postgresDialect(options.db_url), plugins }))
    await mkdir(path.dirname(options.db_path), { recursive: true, mode: 0o700 })
    const dialect = new SqliteDialect({ file: options.db_path })
    const db = new Kysely<Tables>({ dialect, plugins })
    return new Store('sqlite', db, (query) => dialect.now(query) ?? executeOn(db)(query))
  }

  async ping(): Promise<void> {
    await sql`select 1`.execute(this.db).catch((error) => {
      throw storeError(error)
    })
  }

  async close(): Promise<void> {
    await this.db.destroy()
  }
}

/** The same object, whose methods reject in our words. */
function guarded<T extends object>(room: T): T {
  return new Proxy(room, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return async (...args: unknown[]) => {
        try {
          return await value.apply(target, args)
        } catch (error) {
          throw storeError(error)
        }
      }
    },
  })
}
