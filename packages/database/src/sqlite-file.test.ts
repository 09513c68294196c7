import { chmodSync, statSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Database } from './index.ts'
import { type NoteTables, noteSchema } from './testing/notes.ts'

let folder: string
let file: string
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'sk-file-'))
  file = path.join(folder, 'a.db')
})
afterEach(() => rm(folder, { recursive: true, force: true }))

const open = () => Database.open<NoteTables>({ file }, noteSchema)
const modes = () => ['', '-wal', '-shm'].map((end) => statSync(`${file}${end}`).mode & 0o777)

describe('the files of SQLite', () => {
  it('are readable for their owner only, with any umask', async () => {
    const umask = process.umask(0)
    try {
      const database = await open()
      expect(modes()).toEqual([0o600, 0o600, 0o600])
      await database.close()
    } finally {
      process.umask(umask)
    }
  })

  it('of an older version are restricted to their owner', async () => {
    await (await open()).close()
    chmodSync(file, 0o644)
    const database = await open()
    expect(modes()).toEqual([0o600, 0o600, 0o600])
    await database.close()
  })

  it.each([
    ['a new database', false],
    ['one that an older version made', true],
  ])('%s gives space back when rows are removed', async (_, old) => {
    if (old) {
      const older = new DatabaseSync(file)
      older.exec('create table before (a); insert into before values (1)')
      older.close()
    }
    const database = await open()
    const text = 'x'.repeat(10_000)
    for (let round = 0; round < 10; round += 1) {
      const rows = Array.from({ length: 200 }, (_, at) => ({ id: `${round}-${at}`, text }))
      await database.db.insertInto('notes').values(rows).execute()
    }
    const full = await database.size()
    expect(full).toBeGreaterThan(20_000_000)
    await database.db.deleteFrom('notes').execute()
    await database.giveBack()
    expect(await database.size()).toBeLessThan(full / 5)
    await sql`pragma wal_checkpoint(truncate)`.execute(database.db)
    expect(statSync(file).size).toBeLessThan(full / 5)
    await database.close()
  })
})
