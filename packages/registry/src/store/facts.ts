import { randomUUID } from 'node:crypto'
import type { Kysely } from 'kysely'
import { bounded } from './bounds.ts'
import type { FactName, Tables } from './tables.ts'

export class Facts {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  /** The id of this registry. Processes that open an empty database at the same time get the same one. */
  registryId(): Promise<string> {
    return this.once('registry_id', randomUUID())
  }

  async get(name: FactName): Promise<string | undefined> {
    const row = await this.#db
      .selectFrom('registry_facts')
      .select('value')
      .where('name', '=', name)
      .executeTakeFirst()
    return row?.value
  }

  /** Stores the fact, and replaces an earlier one. */
  async put(name: FactName, value: string): Promise<void> {
    const row = { name, value: bounded({ value }).value }
    await this.#db
      .insertInto('registry_facts')
      .values(row)
      .onConflict((oc) => oc.column('name').doUpdateSet({ value: row.value }))
      .execute()
  }

  /** Removes the fact if it has this value. */
  async remove(name: FactName, value: string): Promise<void> {
    await this.#db.deleteFrom('registry_facts').where('name', '=', name).where('value', '=', value).execute()
  }

  /** Stores the fact if it is new. Returns the stored value, which may be another process's. */
  async once(name: FactName, value: string): Promise<string> {
    await this.#db
      .insertInto('registry_facts')
      .values({ name, value: bounded({ value }).value })
      .onConflict((oc) => oc.column('name').doNothing())
      .execute()
    return (await this.get(name))!
  }
}
