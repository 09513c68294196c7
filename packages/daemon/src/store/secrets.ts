import { type Kysely, sql } from 'kysely'
import type { SecretRow, Tables } from './tables.ts'
import { takeTurn } from './turn.ts'

/** Begins the names of values that a front has received as literal headers. Callers neither set nor list them. */
export const inlinePrefix = 'inline.'

export type SecretFacts = Omit<SecretRow, 'sealed'>

export class SecretRows {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  /** In the order of their names, without values. */
  list(projectId: string): Promise<SecretFacts[]> {
    return this.#db
      .selectFrom('secrets')
      .select(facts)
      .where('project_id', '=', projectId)
      .orderBy('name')
      .execute()
  }

  /** The rows of these names, with their encrypted values. */
  named(projectId: string, names: readonly string[]): Promise<SecretRow[]> {
    if (names.length === 0) return Promise.resolve([])
    return this.#db
      .selectFrom('secrets')
      .selectAll()
      .where('project_id', '=', projectId)
      .where('name', 'in', names)
      .execute()
  }

  /**
   * Adds a secret, or replaces its value and counts its version up. Writes of one project run one after another.
   * `seal` gets the row's id. Undefined when the project already has `most` secrets.
   */
  async put(
    row: Pick<SecretRow, 'id' | 'project_id' | 'name' | 'hosts' | 'updated_at'>,
    seal: (id: string) => Promise<string>,
    most: number,
  ): Promise<SecretFacts | undefined> {
    const earlier = await this.#find(this.#db, row)
    const sealed = await seal(earlier?.id ?? row.id)
    return this.#db
      .transaction()
      .execute(async (trx) => {
        await takeTurn(trx, row.project_id)
        const found = await this.#find(trx, row)
        if (found?.id !== earlier?.id) return 'changed' as const
        if (found)
          return trx
            .updateTable('secrets')
            .set({ sealed, hosts: row.hosts, version: found.version + 1, updated_at: row.updated_at })
            .where('id', '=', found.id)
            .returning(facts)
            .executeTakeFirstOrThrow()
        const { count } = await trx
          .selectFrom('secrets')
          .select((eb) => eb.fn.countAll().as('count'))
          .where('project_id', '=', row.project_id)
          .where('name', row.name.startsWith(inlinePrefix) ? 'like' : 'not like', `${inlinePrefix}%`)
          .executeTakeFirstOrThrow()
        if (Number(count) >= most) return undefined
        return trx
          .insertInto('secrets')
          .values({ ...row, sealed, version: 1, created_at: row.updated_at })
          .returning(facts)
          .executeTakeFirstOrThrow()
      })
      .then((result) => (result === 'changed' ? this.put(row, seal, most) : result))
  }

  /** Deletes old literal headers that no live session and no snapshot names. */
  async dropInline(before: number): Promise<void> {
    const named = sql`'%"' || secrets.name || '"%'`
    await sql`delete from secrets where name like ${`${inlinePrefix}%`} and updated_at < ${before}
      and not exists (select 1 from sessions where sessions.project_id = secrets.project_id
        and sessions.live = 1 and sessions.network_policy like ${named})
      and not exists (select 1 from snapshots where snapshots.project_id = secrets.project_id
        and snapshots.settings like ${named})`.execute(this.#db)
  }

  /** Differs after a change of any secret, also one that another daemon made. */
  async stamp(): Promise<string> {
    const { count, versions, last } = await this.#db
      .selectFrom('secrets')
      .select((eb) => [
        eb.fn.countAll().as('count'),
        eb.fn.sum('version').as('versions'),
        eb.fn.max('updated_at').as('last'),
      ])
      .executeTakeFirstOrThrow()
    return `${count} ${versions} ${last}`
  }

  async delete(projectId: string, name: string): Promise<boolean> {
    const { numDeletedRows } = await this.#db
      .deleteFrom('secrets')
      .where('project_id', '=', projectId)
      .where('name', '=', name)
      .executeTakeFirst()
    return numDeletedRows > 0n
  }

  #find(db: Kysely<Tables>, { project_id, name }: Pick<SecretRow, 'project_id' | 'name'>) {
    return db
      .selectFrom('secrets')
      .select(['id', 'version'])
      .where('project_id', '=', project_id)
      .where('name', '=', name)
      .executeTakeFirst()
  }
}

const facts = ['id', 'project_id', 'name', 'version', 'hosts', 'created_at', 'updated_at'] as const
