import { type Kysely, sql, type Transaction } from 'kysely'
import { busyCodes, primaryCode } from '../errors.ts'
import type { DatabaseKind } from '../migrate.ts'
import type { Place } from './cipher.ts'
import type { SealedSchema } from './key-guard.ts'

export interface SealedValuesOptions extends SealedSchema {
  /**
   * For SQLite: only `exclusively` survives a power cut. By default every commit of this connection does, and deleted
   * content is overwritten, which a program with many writes would feel.
   */
  readonly protectOnlyKeys?: boolean
}

/** What has to be erased: the write-ahead log, or pages of the database, too. */
export type EraseDue = 'log' | 'everywhere'

/** The encrypted values of all tables, and the id of the key that they are encrypted with. */
export class SealedValues {
  readonly #db: Kysely<unknown>
  readonly #kind: DatabaseKind
  readonly #options: SealedValuesOptions

  // biome-ignore lint/suspicious/noExplicitAny: this class knows no tables, and Kysely's type is invariant.
  constructor(db: Kysely<any>, kind: DatabaseKind, options: SealedValuesOptions) {
    this.#db = db as Kysely<unknown>
    this.#kind = kind
    this.#options = options
  }

  /** Undefined: nothing was encrypted yet. */
  keyId(): Promise<string | undefined> {
    return keyId(this.#db, this.#options)
  }

  /** The value that is stored now; null if the column is empty. */
  async read({ table, column, row }: Place): Promise<string | null> {
    const { rows } = await sql<{ sealed: string | null }>`
      select ${sql.ref(column)} as sealed from ${sql.table(table)} where id = ${row}`.execute(this.#db)
    return rows[0]?.sealed ?? null
  }

  /**
   * Runs `work` in a transaction during which no other process can write encrypted values. Its commit survives a power
   * cut, so keys that are not needed any more may be dropped afterwards.
   */
  async exclusively<T>(work: (values: LockedValues) => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#db.connection().execute(async (connection) => {
          const durable = this.#kind === 'sqlite' && this.#options.protectOnlyKeys
          if (durable) await sql`pragma synchronous = full`.execute(connection)
          try {
            return await connection.transaction().execute(async (trx) => {
              // SQLite's transaction holds the only write lock already.
              if (this.#kind === 'postgres') await lockTables(trx, this.#options)
              return work(new LockedValues(trx, this.#options))
            })
          } finally {
            if (durable) await sql`pragma synchronous = normal`.execute(connection)
          }
        })
      } catch (error) {
        if ((error as { code?: unknown }).code !== lockNotAvailable || tries === mostTries) throw error
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 50 * tries))
      }
    }
  }

  /**
   * For SQLite, on this connection: deleted content is overwritten, and a commit survives a power cut. Postgres does the
   * second by itself, and not the first.
   */
  async protect(): Promise<void> {
    if (this.#kind !== 'sqlite' || this.#options.protectOnlyKeys) return
    for (const pragma of ['secure_delete = on', 'synchronous = full'])
      await sql.raw(`pragma ${pragma}`).execute(this.#db)
  }

  /**
   * Removes earlier versions of values from SQLite's files. With `everywhere`, also those that were left in pages that
   * are in use. False: another process reads the database, and a later call has to do it. Postgres keeps earlier
   * versions until its own vacuum.
   */
  async eraseOld({ everywhere = false }: { everywhere?: boolean } = {}): Promise<boolean> {
    if (this.#kind !== 'sqlite') return true
    try {
      if (everywhere) await sql`vacuum`.execute(this.#db)
      const { rows } = await sql<{ busy: number }>`pragma wal_checkpoint(truncate)`.execute(this.#db)
      return rows[0]?.busy === 0
    } catch (error) {
      if (busyCodes.includes(primaryCode(error) ?? 0)) return false
      throw error
    }
  }

  /** Writes down that earlier versions have to be erased. A later `everywhere` is not forgotten for a mere `log`. */
  async markErase(what: EraseDue): Promise<void> {
    if (this.#kind !== 'sqlite') return
    const facts = sql.table(this.#options.facts)
    await sql`
      insert into ${facts} (name, value) values ('erase_due', ${what})
      on conflict (name) do update set value = ${what} where value <> 'everywhere'`.execute(this.#db)
  }

  async eraseDue(): Promise<EraseDue | undefined> {
    if (this.#kind !== 'sqlite') return undefined
    const { rows } = await sql<{ value: EraseDue }>`
      select value from ${sql.table(this.#options.facts)} where name = 'erase_due'`.execute(this.#db)
    return rows[0]?.value
  }

  async clearErase(): Promise<void> {
    await sql`delete from ${sql.table(this.#options.facts)} where name = 'erase_due'`.execute(this.#db)
  }
}

/** `SealedValues` in a transaction that excludes other writers. */
export class LockedValues {
  readonly #trx: Transaction<unknown>
  readonly #schema: SealedSchema

  constructor(trx: Transaction<unknown>, schema: SealedSchema) {
    this.#trx = trx
    this.#schema = schema
  }

  keyId(): Promise<string | undefined> {
    return keyId(this.#trx, this.#schema)
  }

  /** Set it before values are replaced: the database refuses values of another key. */
  async setKeyId(value: string): Promise<void> {
    await sql`
      insert into ${sql.table(this.#schema.facts)} (name, value) values ('key_id', ${value})
      on conflict (name) do update set value = ${value}`.execute(this.#trx)
  }

  /** Replaces every value by what `change` makes of it, and returns their number. */
  async replaceAll(change: (sealed: string, place: Place) => string): Promise<number> {
    let count = 0
    for (const { table, column } of this.#schema.columns)
      for (let after = ''; ; ) {
        const { rows } = await sql<{ id: string; sealed: string }>`
          select id, ${sql.ref(column)} as sealed from ${sql.table(table)}
          where ${sql.ref(column)} is not null and id > ${after} order by id limit ${rowsAtOnce}`.execute(
          this.#trx,
        )
        for (const { id, sealed } of rows) {
          const changed = change(sealed, { table, column, row: id })
          await sql`
            update ${sql.table(table)} set ${sql.ref(column)} = ${changed} where id = ${id}`.execute(
            this.#trx,
          )
        }
        count += rows.length
        if (rows.length < rowsAtOnce) break
        after = rows.at(-1)!.id
      }
    return count
  }
}

const rowsAtOnce = 100
const mostTries = 50
const lockNotAvailable = '55P03'

/**
 * This mode conflicts with writes and with itself. Writers take the tables in any order, so this may be in a deadlock
 * with one. It gives up before Postgres would end the writer's transaction (`deadlock_timeout`, 1 s).
 */
async function lockTables(trx: Transaction<unknown>, { columns }: SealedSchema): Promise<void> {
  await sql`set local lock_timeout = '200ms'`.execute(trx)
  const tables = [...new Set(columns.map(({ table }) => table))].sort().reverse()
  await sql`lock table ${sql.join(tables.map((table) => sql.table(table)))} in share row exclusive mode`.execute(
    trx,
  )
}

async function keyId(db: Kysely<unknown>, { facts }: SealedSchema): Promise<string | undefined> {
  const { rows } = await sql<{ value: string }>`
    select value from ${sql.table(facts)} where name = 'key_id'`.execute(db)
  return rows[0]?.value
}
