import { PostgresDialect } from 'kysely'
import pg from 'pg'

/** Parses 64-bit integers as numbers. The values are times and counts far below 2^53. */
const types = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') => {
    if (oid === pg.types.builtins.INT8) return Number
    return pg.types.getTypeParser(oid, format as 'text')
  }) as typeof pg.types.getTypeParser,
}

export function postgresDialect(url: string): PostgresDialect {
  const pool = new pg.Pool({
    connectionString: url,
    max: 10,
    connectionTimeoutMillis: 3_000,
    idleTimeoutMillis: 30_000,
    statement_timeout: 15_000,
    application_name: 'sandkasten',
    allowExitOnIdle: true,
    types,
  })
  // The pool replaces a broken idle connection at the next query. Without a listener the error would end this process.
  pool.on('error', () => {})
  // A client in use also rejects its query, which reports the error.
  pool.on('connect', (client) => void client.on('error', () => {}))
  return new PostgresDialect({ pool })
}
