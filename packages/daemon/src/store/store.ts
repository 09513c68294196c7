import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { Kysely, type KyselyPlugin, sql } from 'kysely'
import { Reserve } from './disk-reserve.ts'
import { diskFull, storeError } from './errors.ts'
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

/** The daemon's database. Every method may throw `unavailable` or `disk_full`; then it changed nothing. */
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

  readonly #reserve: Reserve | undefined
  readonly #sqlite: SqliteDialect | undefined

  private constructor(
    kind: StoreKind,
    db: Kysely<Tables>,
    { reserve, sqlite }: { reserve?: Reserve; sqlite?: SqliteDialect } = {},
  ) {
    this.kind = kind
    this.db = db
    this.#reserve = reserve
    this.#sqlite = sqlite
    this.keys = guarded(new Keys(db), reserve)
    this.sessions = guarded(new Sessions(db), reserve)
    this.execs = guarded(new Execs(db), reserve)
    this.snapshots = guarded(new Snapshots(db), reserve)
    this.ports = guarded(new Ports(db), reserve)
    this.fronts = guarded(new Fronts(db), reserve)
    this.records = guarded(new Records(db), reserve)
  }

  /** Opens the database and migrates its tables to the newest version. */
  static async open(options: { db_url?: string; db_path: string }): Promise<Store> {
    const store = await Store.connect(options)
    try {
      await migrate(store.db as unknown as Kysely<unknown>, store.kind)
      store.#reserve?.take()
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
    return new Store('sqlite', db, { reserve: new Reserve(options.db_path), sqlite: dialect })
  }

  /** Returns unused space to the file system in small steps. Postgres does that by itself. */
  async giveBack(): Promise<void> {
    if (!this.#sqlite) return
    try {
      for (let round = 0; round < mostRounds; round += 1) {
        const [free, all] = [await this.#pragma('freelist_count'), await this.#pragma('page_count')]
        if (free < leastFreePages || free < all / 10) break
        await this.#sqlite.exec(`pragma incremental_vacuum(${pagesAtOnce})`)
        await new Promise((resolve) => setImmediate(resolve))
      }
    } catch (error) {
      throw storeError(error)
    }
  }

  /** Reserves disk space again after a full disk; see `Reserve`. */
  putBy(): void {
    this.#reserve?.take()
  }

  /** The size of the database in bytes; 0 for Postgres. */
  async size(): Promise<number> {
    if (this.kind !== 'sqlite') return 0
    return (await this.#pragma('page_count')) * (await this.#pragma('page_size'))
  }

  async #pragma(name: string): Promise<number> {
    const { rows } = await sql.raw<Record<string, number>>(`pragma ${name}`).execute(this.db)
    return Number(Object.values(rows[0] ?? {})[0] ?? 0)
  }

  async ping(): Promise<void> {
    await sql`select 1`.execute(this.db).catch((error) => {
      throw storeError(error)
    })
  }

  async close(): Promise<void> {
    await this.db.destroy()
    this.#reserve?.remove()
  }
}

const pagesAtOnce = 256
const leastFreePages = 256
const mostRounds = 400

/** Methods that shrink the database or change a row in place. They must work on a full disk. */
const essential = new Set([
  'Sessions.update',
  'Sessions.forget',
  'Sessions.forgetIdempotency',
  'Sessions.forgetStarts',
  'Sessions.prune',
  'Sessions.pruneBeyond',
  'Execs.delete',
  'Execs.prune',
  'Execs.dropOldest',
  'Records.prune',
  'Snapshots.delete',
  'Ports.delete',
  'Fronts.delete',
  'Keys.revoke',
])
/** Methods that grow the database. They may not use the reserve. */
const growing = new Set([
  'Sessions.insert',
  'Sessions.insertAll',
  'Execs.insert',
  'Execs.update',
  'Records.addEvents',
  'Records.addAudit',
  'Snapshots.insert',
  'Ports.put',
  'Fronts.put',
  'Fronts.insert',
  'Keys.insert',
  'Keys.insertProject',
])

/** Wraps the methods of `room` so that they reject with `SandboxError`, and use the reserve when the disk is full. */
function guarded<T extends object>(room: T, reserve: Reserve | undefined): T {
  return new Proxy(room, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      const method = `${target.constructor.name}.${String(name)}`
      return async (...args: unknown[]) => {
        if (reserve?.spent && growing.has(method)) throw diskFull()
        try {
          return await value.apply(target, args)
        } catch (error) {
          const known = storeError(error)
          if (!SandboxError.is(known, 'disk_full') || !essential.has(method) || !reserve?.spend()) throw known
        }
        try {
          return await value.apply(target, args)
        } catch (error) {
          throw storeError(error)
        }
      }
    },
  })
}
