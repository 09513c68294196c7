import { chmodSync, statSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Store } from './store.ts'

let folder: string
let db_path: string
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'sk-file-'))
  db_path = path.join(folder, 'a.db')
})
afterEach(() => rm(folder, { recursive: true, force: true }))

const modes = () => ['', '-wal', '-shm'].map((end) => statSync(`${db_path}${end}`).mode & 0o777)

describe('the files of SQLite', () => {
  it('are readable for their owner only, with any umask', async () => {
    const umask = process.umask(0)
    try {
      const store = await Store.open({ db_path })
      expect(modes()).toEqual([0o600, 0o600, 0o600])
      await store.close()
    } finally {
      process.umask(umask)
    }
  })

  it('of an older daemon are restricted to their owner', async () => {
    await (await Store.open({ db_path })).close()
    chmodSync(db_path, 0o644)
    const store = await Store.open({ db_path })
    expect(modes()).toEqual([0o600, 0o600, 0o600])
    await store.close()
  })

  it.each([
    ['a new database', false],
    ['one that an older daemon made', true],
  ])('%s gives space back when rows are removed', async (_, old) => {
    if (old) {
      const database = new DatabaseSync(db_path)
      database.exec('create table before (a); insert into before values (1)')
      database.close()
    }
    const store = await Store.open({ db_path })
    const event = { project_id: 'p', session_id: 's', type: 't', data: 'x'.repeat(10_000), created_at: 1 }
    for (let round = 0; round < 10; round += 1)
      await store.records.addEvents(Array.from({ length: 200 }, () => event))
    const full = await store.size()
    expect(full).toBeGreaterThan(20_000_000)
    await store.records.prune({ events: { rows: 10, bytes: 1e9 }, audit: { rows: 1, bytes: 1 } })
    await store.giveBack()
    expect(await store.size()).toBeLessThan(full / 5)
    await sql`pragma wal_checkpoint(truncate)`.execute(store.db)
    expect(statSync(db_path).size).toBeLessThan(full / 5)
    await store.close()
  })
})
