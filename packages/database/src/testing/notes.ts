import type { Kysely } from 'kysely'
import type { Schema } from '../index.ts'

/** A program with one table, for the tests of this package. */
export interface NoteTables {
  notes: { id: string; text: string }
}

export const noteSchema: Schema = {
  program: 'notebook',
  versionTable: 'notebook_version',
  lockId: 1001,
  migrations: [
    {
      version: 1,
      name: 'notes',
      async up(db) {
        await db.schema
          .createTable('notes')
          .addColumn('id', 'text', (c) => c.primaryKey())
          .addColumn('text', 'text', (c) => c.notNull())
          .execute()
      },
    },
  ],
}

export class Notes {
  readonly #db: Kysely<NoteTables>

  constructor(db: Kysely<NoteTables>) {
    this.#db = db
  }

  async add(id: string, text: string): Promise<void> {
    await this.#db.insertInto('notes').values({ id, text }).execute()
  }

  async replace(id: string, text: string): Promise<void> {
    await this.#db.updateTable('notes').set({ text }).where('id', '=', id).execute()
  }

  async ids(): Promise<string[]> {
    const rows = await this.#db.selectFrom('notes').select('id').orderBy('id').execute()
    return rows.map(({ id }) => id)
  }
}

export const noteRules = { essential: new Set(['Notes.replace']), growing: new Set(['Notes.add']) }
