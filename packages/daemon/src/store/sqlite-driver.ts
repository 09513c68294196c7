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
import { allowShrinking, protectFiles } from './sqlite-file.ts'

/**
 * Kysely on Node's own SQLite. One connection, used by one caller at a time.
 *
 * SQLite's calls block this process, so waiting for another process's lock inside SQLite (`busy_timeout`) would stop
 * every request. We ask without waiting and wait ourselves, between tries. A transaction takes the write lock when it
 * begins, so that nothing after that can be refused. Whoever comes while the database has been locked for so long already
 * is told at once: waits that follow each other on one connection would add up.
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

  /** The rows at once, without Kysely's many steps, if nobody else uses the connection just now; otherwise undefined. */
  now<R>(query: CompiledQuery<R>): R[] | undefined {
    return this.#driver?.now(query)
  }

  /** For statements that take many steps, of which a prepared one would make only the first. */
  async exec(sql: string): Promise<void> {
    await this.#driver?.exec(sql)
  }

  createQueryCompiler = () => new SqliteQueryCompiler()
  createAdapter = () => new SqliteAdapter()
  createIntrospector = (db: Kysely<unknown>) => new SqliteIntrospector(db)
}

/** How long another process may hold the database before we give up on it. */
const busyMs = 5_000
/** One who has not been refused for so long meets another lock, not the same one. */
const sameLockMs = 1_000
const statementsKept = 256

class SqliteDriver implements Driver {
  readonly #file: string
  #connection: SqliteConnection | undefined
  #turn: Promise<void> = Promise.resolve()
  #release: () => void = () => {}
  /** Who uses it, or waits for that. */
  #users = 0

  constructor(file: string) {
    this.#file = file
  }

  async init(): Promise<void> {
    await protectFiles(this.#file)
    const database = new DatabaseSync(this.#file, { timeout: 0 })
    this.#connection = new SqliteConnection(database)
    await this.#connection.patiently(() => allowShrinking(database, this.#file))
    // A commit survives the end of this process at any instant; a power cut may take the last few, and never corrupts.
    for (const pragma of [
      'journal_mode = wal',
      'synchronous = normal',
      'foreign_keys = on',
      'journal_size_limit = 16777216',
    ])
      await this.#connection.run(`pragma ${pragma}`)
  }

  now<R>(query: CompiledQuery<R>): R[] | undefined {
    return this.#users === 0 ? this.#connection?.now(query) : undefined
  }

  async acquireConnection(): Promise<DatabaseConnection> {
    this.#users += 1
    const before = this.#turn
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#turn = promise
    await before
    this.#release = resolve
    return this.#connection!
  }

  async releaseConnection(): Promise<void> {
    this.#users -= 1
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
  /** Since when, and when last, another process held it. */
  #locked: { since: number; last: number } | undefined

  constructor(database: DatabaseSync) {
    this.database = database
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    return this.patiently(() => this.#execute(query))
  }

  /** Undefined when another process holds the database. */
  now<R>(query: CompiledQuery): R[] | undefined {
    try {
      return this.#execute<R>(query).rows
    } catch (error) {
      if (isBusy(error)) return undefined
      throw error
    }
  }

  // biome-ignore lint/correctness/useYield: the interface wants a generator; nothing here streams.
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('The store does not stream.')
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
        // What had to wait has got it; what only reads never has to, and proves nothing.
        if (waitMs > 2) this.#locked = undefined
        return result
      } catch (error) {
        if (!isBusy(error)) throw error
        const now = performance.now()
        const { since, last } = this.#locked ?? { since: now, last: now }
        this.#locked = { since: now - last > sameLockMs ? now : since, last: now }
        if (now - this.#locked.since > busyMs) throw error
      }
      await new Promise((resolve) => setTimeout(resolve, waitMs))
    }
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

function isBusy(error: unknown): boolean {
  return (error as { errcode?: number }).errcode === 5
}

interface Prepared {
  readonly statement: StatementSync
  /** Gives rows, rather than changing some. */
  readonly reads: boolean
}
