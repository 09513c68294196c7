import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { postgresMissing, startPostgres, type TestPostgres } from '../../../database/src/testing/postgres.ts'
import { type DatabaseLocation, openStore } from '../store/index.ts'
import { sandboxRow } from '../store/testing/rows.ts'
import { BeatWatch, Leases } from './index.ts'

/** The database goes away during an operation, and comes back. This process lives on, and does nothing more. */
async function operateWhileAway(
  location: DatabaseLocation,
  leave: () => unknown,
  comeBack: () => unknown,
): Promise<void> {
  const store = await openStore(location)
  const leases = new Leases(store.sandboxes, new BeatWatch(), async () => {})
  const ids = { quiet: randomUUID(), writing: randomUUID() }
  for (const id of Object.values(ids)) await store.sandboxes.insert(sandboxRow({ id, name: id }))
  const both = Promise.withResolvers<void>()
  const away = Promise.withResolvers<void>()
  const writing = leases.operate(ids.writing, 'stop', async (lease) => {
    both.resolve()
    await away.promise
    await lease.update({ status: 'stopped' })
  })
  writing.catch(() => {})
  await leases.operate(ids.quiet, 'start', async () => {
    await both.promise
    await leave()
    away.resolve()
  })
  await expect(writing).rejects.toMatchObject({ code: 'unavailable' })
  await comeBack()
  // Another process finds no lease, and an operation to recover only where a write failed.
  const other = await openStore(location)
  const read = async (id: string) => {
    const row = (await other.sandboxes.byId(id))!
    return { lease_holder: row.lease_holder, operation: row.operation }
  }
  await expect.poll(() => read(ids.quiet)).toEqual({ lease_holder: null, operation: null })
  await expect.poll(() => read(ids.writing)).toEqual({ lease_holder: null, operation: 'stop' })
  await other.close()
  await leases.close()
  await store.close()
}

const noPostgres = await postgresMissing()
describe.skipIf(noPostgres)(`Postgres that is killed${noPostgres ? ` (skipped: ${noPostgres})` : ''}`, () => {
  let postgres: TestPostgres
  beforeAll(async () => {
    postgres = await startPostgres()
  })
  afterAll(() => postgres?.stop())

  it('leaves no lease of a living process', async () => {
    await operateWhileAway({ url: postgres.url }, postgres.kill, postgres.start)
  })
})

describe('SQLite that another program locks', () => {
  it('leaves no lease of a living process', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'sk-away-'))
    const file = path.join(folder, 'a.db')
    await (await openStore({ file })).close()
    const other = new DatabaseSync(file)
    await operateWhileAway(
      { file },
      () => other.exec('begin immediate'),
      () => other.exec('rollback'),
    )
    other.close()
    await rm(folder, { recursive: true, force: true })
  })
})
