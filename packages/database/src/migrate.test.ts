import { type Kysely, sql } from 'kysely'
import { expect, it } from 'vitest'
import { Database, migrate, type Schema } from './index.ts'
import { describeOnEachDatabase } from './testing/each-database.ts'
import { type NoteTables, noteSchema } from './testing/notes.ts'

const otherSchema: Schema = {
  program: 'calendar',
  versionTable: 'calendar_version',
  lockId: 1002,
  migrations: ['days', 'weeks', 'months'].map((name, at) => ({
    version: at + 1,
    name,
    up: async (db) => db.schema.createTable(name).addColumn('id', 'text').execute(),
  })),
}

const anyTables = <T>({ db }: Database<T>) => db as unknown as Kysely<unknown>

describeOnEachDatabase('migrations', (place, kind) => {
  it('of two programs in one database do not affect each other', async () => {
    const location = await place()
    const calendar = await Database.open(location, otherSchema)
    const notes = await Database.open<NoteTables>(location, noteSchema)
    await notes.db.insertInto('notes').values({ id: 'a', text: '' }).execute()
    expect(await migrate(anyTables(notes), kind, noteSchema)).toBe(1)
    expect(await migrate(anyTables(calendar), kind, otherSchema)).toBe(3)
    const { rows } = await sql`select version, name from calendar_version order by version`.execute(notes.db)
    expect(rows).toEqual([
      { version: 1, name: 'days' },
      { version: 2, name: 'weeks' },
      { version: 3, name: 'months' },
    ])
    await notes.close()
    await calendar.close()
  })

  it('run once when several processes start together', async () => {
    const location = await place()
    const opened = await Promise.all(
      Array.from({ length: 4 }, () => Database.open<NoteTables>(location, noteSchema)),
    )
    const { rows } = await sql`select version from notebook_version`.execute(opened[0]!.db)
    expect(rows).toEqual([{ version: 1 }])
    await Promise.all(opened.map((database) => database.close()))
  })

  it('stop at a wanted version, and continue from it', async () => {
    const database = await Database.connect(await place())
    expect(await migrate(anyTables(database), kind, otherSchema, { upTo: 2 })).toBe(2)
    await expect(sql`select * from months`.execute(database.db)).rejects.toThrow(/months/)
    expect(await migrate(anyTables(database), kind, otherSchema)).toBe(3)
    await sql`select * from months`.execute(database.db)
    await database.close()
  })

  it('that fail change nothing', async () => {
    const location = await place()
    await (await Database.open(location, noteSchema)).close()
    const broken = {
      version: 2,
      name: 'broken',
      async up(db: Kysely<unknown>) {
        await db.schema.createTable('halfway').addColumn('id', 'text').execute()
        throw new Error('broken step')
      },
    }
    const migrations = [...noteSchema.migrations, broken]
    await expect(Database.open(location, { ...noteSchema, migrations })).rejects.toThrow('broken step')
    const database = await Database.open(location, noteSchema)
    await expect(sql`select * from halfway`.execute(database.db)).rejects.toThrow(/halfway/)
    await database.close()
  })

  it('of a newer program are refused, with the program’s name', async () => {
    const location = await place()
    await (await Database.open(location, otherSchema)).close()
    const migrations = otherSchema.migrations.slice(0, 2)
    await expect(Database.open(location, { ...otherSchema, migrations })).rejects.toMatchObject({
      code: 'conflict',
      message: 'The database has version 3; this calendar supports up to 2.',
      hint: 'Use the newer calendar, or another database.',
    })
  })
})
