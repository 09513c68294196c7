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
