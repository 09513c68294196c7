import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Database } from './index.ts'
import { Notes, type NoteTables, noteRules, noteSchema } from './testing/notes.ts'
import { postgresMissing, startPostgres, type TestPostgres } from './testing/postgres.ts'

const missing = await postgresMissing()

describe.skipIf(missing)(`Postgres${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let postgres: TestPostgres
  beforeAll(async () => {
    postgres = await startPostgres()
  })
  afterAll(() => postgres?.stop())

  it('that is killed is reported, and works again after its restart', async () => {
    const database = await Database.open<NoteTables>({ url: postgres.url }, noteSchema)
    const notes = database.guarded(new Notes(database.db), noteRules)
    await notes.add('before', '')
    await postgres.kill()
    await expect(notes.add('lost', '')).rejects.toMatchObject({ code: 'unavailable' })
    await expect(database.ping()).rejects.toMatchObject({ code: 'unavailable', retryable: true })
    await postgres.start()
    await notes.add('after', '')
    expect(await notes.ids()).toEqual(['after', 'before'])
    await database.close()
  })
})
