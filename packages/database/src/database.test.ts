import { afterEach, beforeEach, expect, it } from 'vitest'
import { Database, type DatabaseLocation, isDuplicate } from './index.ts'
import { describeOnEachDatabase } from './testing/each-database.ts'
import { Notes, type NoteTables, noteRules, noteSchema } from './testing/notes.ts'

describeOnEachDatabase('a database', (place, kind) => {
  let location: DatabaseLocation
  let database: Database<NoteTables>
  let notes: Notes
  const open = async () => {
    database = await Database.open<NoteTables>(location, noteSchema)
    notes = database.guarded(new Notes(database.db), noteRules)
  }
  beforeEach(async () => {
    location = await place()
    await open()
  })
  afterEach(() => database.close())

  it('keeps rows when it is opened again', async () => {
    await notes.add('a', 'ü')
    await database.close()
    await open()
    expect(await database.db.selectFrom('notes').selectAll().execute()).toEqual([{ id: 'a', text: 'ü' }])
    expect(database.kind).toBe(kind)
    await database.ping()
  })

  it('recognises a duplicate key, and no other error', async () => {
    await notes.add('a', '')
    const duplicate = await notes.add('a', '').catch((error: unknown) => error)
    expect(isDuplicate(duplicate)).toBe(true)
    const missing = await notes.add('b', null as never).catch((error: unknown) => error)
    expect(missing).toBeInstanceOf(Error)
    expect(isDuplicate(missing)).toBe(false)
  })

  it('undoes a transaction that fails', async () => {
    const failed = database.db.transaction().execute(async (trx) => {
      await trx.insertInto('notes').values({ id: 'a', text: '' }).execute()
      throw new Error('undo')
    })
    await expect(failed).rejects.toThrow('undo')
    expect(await notes.ids()).toEqual([])
  })
})
