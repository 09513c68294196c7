/** Databases on SQLite or Postgres: connections, migrations, errors, and behaviour on a full disk. */

export { Database, type DatabaseLocation } from './database.ts'
export { Reserve, type ReserveOptions } from './disk-reserve.ts'
export { databaseError, diskFull, isDuplicate } from './errors.ts'
export type { FullDiskRules } from './guarded.ts'
export { type DatabaseKind, type Migration, migrate, type Schema } from './migrate.ts'
