import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe } from 'vitest'
import type { DatabaseKind, DatabaseLocation } from '../index.ts'
import { postgresMissing, startPostgres, type TestPostgres } from './postgres.ts'

/** Returns a new, empty database. */
export type NewDatabase = () => Promise<DatabaseLocation>

const noPostgres = await postgresMissing()

/** Runs a suite on SQLite, and on a Postgres server of its own. Without Postgres, that half is skipped with the reason. */
export function describeOnEachDatabase(
  name: string,
  suite: (place: NewDatabase, kind: DatabaseKind) => void,
): void {
  describe(`${name} on SQLite`, () => {
    let folder: string
    let count = 0
    beforeAll(async () => {
      folder = await mkdtemp(path.join(tmpdir(), 'sk-database-'))
    })
    afterAll(() => rm(folder, { recursive: true, force: true }))
    suite(async () => ({ file: path.join(folder, `${count++}.db`) }), 'sqlite')
  })

  const skipped = noPostgres ? ` (skipped: ${noPostgres})` : ''
  describe.skipIf(noPostgres)(`${name} on Postgres${skipped}`, () => {
    let postgres: TestPostgres
    let count = 0
    beforeAll(async () => {
      postgres = await startPostgres()
    })
    afterAll(() => postgres?.stop())
    suite(async () => ({ url: await postgres.database(`d${count++}`) }), 'postgres')
  })
}
