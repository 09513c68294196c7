/** The database of threads: tables and queries on SQLite or Postgres. The only SQL of this package. */

export type { DatabaseLocation } from '@sandkasten/database'
export { cut, toJson } from './bounds.ts'
export { defaultLocation, threadsFolder } from './location.ts'
export { openStore, Store } from './store.ts'
export type * from './tables.ts'
export type { ThreadChanges } from './threads.ts'
export type { NewTurn, TurnChanges } from './turns.ts'
