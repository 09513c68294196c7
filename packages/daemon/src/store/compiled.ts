import type { CompiledQuery, Kysely } from 'kysely'
import type { Tables } from './tables.ts'

/** Queries that every request makes are put together once; then only their values change. */

/** Runs one of them, the shortest way there is. */
export type Execute = <R>(query: CompiledQuery<R>) => R[] | Promise<R[]>

/** Within a transaction, or wherever else there is no shorter way. */
export function executeOn(db: Kysely<Tables>): Execute {
  return async (query) => (await db.executeQuery(query)).rows
}

/** A query with one parameter. */
export function compiled<R>(
  execute: Execute,
  build: (parameter: string) => { compile(): CompiledQuery<R> },
): (parameter: string) => Promise<R | undefined> {
  let query: CompiledQuery<R> | undefined
  return async (parameter) => {
    query ??= build(parameter).compile()
    const [row] = await execute<R>({ ...query, parameters: [parameter] })
    return row
  }
}

/** A query of few shapes. `build` is given the first values of its shape, and must use them in the order of `parameters`. */
export function shaped<R>(
  execute: Execute,
): (
  shape: string,
  parameters: readonly unknown[],
  build: () => { compile(): CompiledQuery<R> },
) => Promise<R[]> {
  const known = new Map<string, CompiledQuery<R>>()
  return async (shape, parameters, build) => {
    let query = known.get(shape)
    if (!query) {
      query = build().compile()
      known.set(shape, query)
    }
    return execute({ ...query, parameters })
  }
}

/** An insert of rows that all have the same columns. */
export function insertion<Row extends object>(
  build: (row: Row) => { compile(): CompiledQuery },
): (execute: Execute, row: Row) => Promise<void> {
  let known: { query: CompiledQuery; columns: Array<keyof Row> } | undefined
  return async (execute, row) => {
    known ??= { query: build(row).compile(), columns: Object.keys(row) as Array<keyof Row> }
    const { query, columns } = known
    await execute({ ...query, parameters: columns.map((column) => row[column]) })
  }
}
