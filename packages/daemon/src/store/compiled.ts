import type { CompiledQuery, Kysely } from 'kysely'
import type { Tables } from './tables.ts'

/** A query with one parameter that every request makes: put together once, then only its parameter changes. */
export function compiled<R>(
  db: Kysely<Tables>,
  build: (parameter: string) => { compile(): CompiledQuery<R> },
): (parameter: string) => Promise<R | undefined> {
  let query: CompiledQuery<R> | undefined
  return async (parameter) => {
    query ??= build(parameter).compile()
    const { rows } = await db.executeQuery<R>({ ...query, parameters: [parameter] })
    return rows[0]
  }
}

/** An insert of rows that all have the same columns, put together once. */
export function insertion<Row extends object>(
  build: (db: Kysely<Tables>, row: Row) => { compile(): CompiledQuery },
): (db: Kysely<Tables>, row: Row) => Promise<void> {
  let known: { query: CompiledQuery; columns: Array<keyof Row> } | undefined
  return async (db, row) => {
    known ??= { query: build(db, row).compile(), columns: Object.keys(row) as Array<keyof Row> }
    const { query, columns } = known
    await db.executeQuery({ ...query, parameters: columns.map((column) => row[column]) })
  }
}
