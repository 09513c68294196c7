import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { Kysely, sql } from 'kysely'
import { Reserve } from './disk-reserve.ts'
import { databaseError } from './errors.ts'
import { type FullDiskRules, guarded } from './guarded.ts'
import { type DatabaseKind, migrate, type Schema } from './migrate.ts'
import { SqliteDialect } from './sqlite-driver.ts'

/** A Postgres URL, or the path of an SQLite file. */
export type DatabaseLocation = { readonly url: string } | { readonly file: string }

/**
 * One open database. Queries of `db` reject with the errors of the driver. `guarded` translates them; then every method
 * may throw `unavailable` or `disk_full`, and has changed nothing.
 */
export class Database<Tables> {
  readonly kind: DatabaseKind
  readonly db: Kysely<Tables>
  readonly #sqlite: SqliteDialect | undefined
  readonly #reserve: Reserve | undefined

  private constructor(db: Kysely<Tables>, sqlite?: { dialect: SqliteDialect; reserve: Reserve }) {
    this.kind = sqlite ? 'sqlite' : 'postgres'
    this.db = db
    this.#sqlite = sqlite?.dialect
    this.#reserve = sqlite?.reserve
  }

  /** Opens the database, and migrates the tables of `schema` to the newest version. */
  static async open<Tables>(location: DatabaseLocation, schema: Schema): Promise<Database<Tables>> {
    const database = await Database.connect<Tables>(location)
    try {
      await migrate(database.db as unknown as Kysely<unknown>, database.kind, schema)
      database.reserveDisk()
      return database
    } catch (error) {
      await database.close()
      throw databaseError(error, 'file' in location ? location.file : undefined)
    }
  }

  /** Opens the database without migrating it. */
  static async connect<Tables>(location: DatabaseLocation): Promise<Database<Tables>> {
    if ('url' in location) {
      // Loading `pg` takes 25 ms, which a command on SQLite does not need.
      const { postgresDialect } = await import('./postgres.ts')
      return new Database(new Kysely<Tables>({ dialect: postgresDialect(location.url) }))
    }
    const { file } = location
    await mkdir(path.dirname(file), { recursive: true, mode: 0o700 })
    const dialect = new SqliteDialect({ file })
    return new Database(new Kysely<Tables>({ dialect }), { dialect, reserve: new Reserve(file) })
  }

  /** Wraps the methods of `queries`: their errors are `SandboxError`, and a full disk is handled as `rules` say. */
  guarded<T extends object>(queries: T, rules: FullDiskRules): T {
    return guarded(queries, rules, this.#reserve)
  }

  /** Reserves disk space for essential writes, also again after a full disk; see `Reserve`. */
  reserveDisk(): void {
    this.#reserve?.take()
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
      throw databaseError(error)
    }
  }

  /** The size of the database in bytes; 0 for Postgres. */
  async size(): Promise<number> {
    if (this.kind !== 'sqlite') return 0
    return (await this.#pragma('page_count')) * (await this.#pragma('page_size'))
  }

  async ping(): Promise<void> {
    await sql`select 1`.execute(this.db).catch((error) => {
      throw databaseError(error)
    })
  }

  async close(): Promise<void> {
    await this.db.destroy()
    this.#reserve?.remove()
  }

  async #pragma(name: string): Promise<number> {
    const { rows } = await sql.raw<Record<string, number>>(`pragma ${name}`).execute(this.db)
    return Number(Object.values(rows[0] ?? {})[0] ?? 0)
  }
}

const pagesAtOnce = 256
const leastFreePages = 256
const mostRounds = 400
