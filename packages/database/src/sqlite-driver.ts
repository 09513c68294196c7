import { DatabaseSync, type StatementSync } from 'node:sqlite'
import type { Kysely } from 'kysely'
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely'
import { busyCodes, primaryCode } from './errors.ts'
import { allowShrinking, protectFiles } from './sqlite-file.ts'

/**
 * Kysely on Node's own SQLite: one connection, used by one caller at a time.
 *
 * SQLite's calls block this process, so `busy_timeout` would stop every request while another process holds the lock.
 * Instead the driver retries between other work. A transaction takes the write lock when it begins, so no later
 * statement can be refused. Once the database has been locked for `busyMs`, further calls fail at once, because waits
 * on one connection would add up.
 */
export class SqliteDialect implements Dialect {
  readonly #file: string
  #driver: SqliteDriver | undefined

  constructor(options: { file: string }) {
    this.#file = options.file
  }

  createDriver = (): Driver => {
    this.#driver = new SqliteDriver(this.#file)
    return this.#driver
  }

  /** Runs a text of several statements. A prepared statement would run only the first. */
  async exec(sql: string): Promise<void> {
    await this.#driver?.exec(sql)
  }

  createQueryCompiler = () => new SqliteQueryCompiler()
  createAdapter = () => new SqliteAdapter()
  createIntrospector = (db: Kysely<unknown>) => new SqliteIntrospector(db)
}

/** How long another process may hold the database before calls fail. */
const busyMs = 5_000
/** A process that seldom runs has few tries in `busyMs`, and others may use the database at each of them. */
const leastTries = 50
/** After this long without a refusal, the next lock counts as a new one. */
const sameLockMs = 1_000
const statementsKept = 256

class SqliteDriver implements Driver {
  readonly #file: string
  #connection: SqliteConnection | undefined
  #turn: Promise<void> = Promise.resolve()
  #release: () => void = () => {}

  constructor(file: string) {
    this.#file = file
  }

  async init(): Promise<void> {
    await protectFiles(this.#file)
    const database = new DatabaseSync(this.#file, { timeout: 0 })
    const connection = new SqliteConnection(database)
    try {
      await connection.patiently(() => allowShrinking(database, this.#file))
      // A commit survives the death of this process. A power cut may lose the last commits, but never corrupts the file.
      for (const pragma of [
        'journal_mode = wal',
        'synchronous = normal',
        'foreign_keys = on',
        'journal_size_limit = 16777216',
      ])
        await connection.run(`pragma ${pragma}`)
    } catch (error) {
      connection.close()
      throw error
    }
    this.#connection = connection
  }

  async acquireConnection(): Promise<DatabaseConnection> {
    const before = this.#turn
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#turn = promise
    await before
    this.#release = resolve
    return this.#connection!
  }

  async releaseConnection(): Promise<void> {
    this.#release()
  }

  async exec(sql: string): Promise<void> {
    const connection = (await this.acquireConnection()) as SqliteConnection
    try {
      await connection.run(sql)
    } finally {
      await this.releaseConnection()
    }
  }

  async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await (connection as SqliteConnection).run('begin immediate')
  }

  async commitTransaction(connection: DatabaseConnection): Promise<void> {
    await (connection as SqliteConnection).run('commit')
  }

  async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    // SQLite has rolled back by itself after some errors, such as a full disk.
    const { database } = connection as SqliteConnection
    if (database.isTransaction) database.exec('rollback')
  }

  async destroy(): Promise<void> {
    await this.#turn
    this.#connection?.close()
  }
}

class SqliteConnection implements DatabaseConnection {
  readonly database: DatabaseSync
  readonly #statements = new Map<string, Prepared>()
  /** When another process was first and last seen holding the lock, and how often. */
  #locked: { since: number; last: number; tries: number } | undefined

  constructor(database: DatabaseSync) {
    this.database = database
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    return this.patiently(() => this.#execute(query))
  }

  // biome-ignore lint/correctness/useYield: the interface wants a generator; nothing here streams.
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('This driver does not stream.')
  }

  run(sql: string): Promise<void> {
    return this.patiently(() => this.database.exec(sql))
  }

  close(): void {
    this.#statements.clear()
    this.database.close()
  }

  async patiently<T>(work: () => T): Promise<T> {
    for (let waitMs = 2; ; waitMs = Math.min(waitMs * 2, 50)) {
      try {
        const result = work()
        // Only a call that waited proves that the lock is free: a read never waits.
        if (waitMs > 2) this.#locked = undefined
        return result
      } catch (error) {
        if (!isBusy(error)) throw error
        const now = performance.now()
        const { since, tries } = this.#sameLock(now) ?? { since: now, tries: 0 }
        this.#locked = { since, last: now, tries: tries + 1 }
        if (now - since > busyMs && tries >= leastTries) throw error
      }
      await new Promise((resolve) => setTimeout(resolve, waitMs))
    }
  }

  #sameLock(now: number) {
    return this.#locked && now - this.#locked.last <= sameLockMs ? this.#locked : undefined
  }

  #execute<R>({ sql, parameters }: CompiledQuery): QueryResult<R> {
    const { statement, reads } = this.#prepare(sql)
    const values = parameters as Array<string | number | bigint | Uint8Array | null>
    if (reads) return { rows: statement.all(...values) as R[] }
    const { changes, lastInsertRowid } = statement.run(...values)
    return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) }
  }

  #prepare(sql: string): Prepared {
    const known = this.#statements.get(sql)
    if (known) return known
    const statement = this.database.prepare(sql)
    const prepared = { statement, reads: statement.columns().length > 0 }
    if (this.#statements.size >= statementsKept) this.#statements.clear()
    this.#statements.set(sql, prepared)
    return prepared
  }
}

/**
 * Another process holds the lock, recovers the file after a process was killed (`SQLITE_BUSY_RECOVERY`), or opens or
 * closes it right now (`SQLITE_PROTOCOL`).
 */
function isBusy(error: unknown): boolean {
  return busyCodes.includes(primaryCode(error) ?? 0)
}

interface Prepared {
  readonly statement: StatementSync
  /** Returns rows instead of changing them. */
  readonly reads: boolean
}
