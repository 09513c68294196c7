import { isDuplicate } from '@sandkasten/database'
import type { Kysely } from 'kysely'
import type { FrontRow, Tables } from './tables.ts'

/** Records of fronts about their sandboxes; see `fronts/records.ts`. */
export class Fronts {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async get(front: string, projectId: string, kind: string, key: string): Promise<FrontRow | undefined> {
    return this.#db
      .selectFrom('front_records')
      .selectAll()
      .where('front', '=', front)
      .where('project_id', '=', projectId)
      .where('kind', '=', kind)
      .where('key', '=', key)
      .executeTakeFirst()
  }

  async list(front: string, projectId: string, kind: string): Promise<FrontRow[]> {
    return this.#db
      .selectFrom('front_records')
      .selectAll()
      .where('front', '=', front)
      .where('project_id', '=', projectId)
      .where('kind', '=', kind)
      .orderBy('key')
      .execute()
  }

  /** Uses the index of the session, because a project may have many records. */
  async ofSession(front: string, sessionId: string, kind: string): Promise<FrontRow[]> {
    const rows = await this.#db
      .selectFrom('front_records')
      .selectAll()
      .where('session_id', '=', sessionId)
      .where('kind', '=', kind)
      .orderBy('key')
      .execute()
    // Filtered here: with the front in the query, the database might use the primary key and read all records of the front.
    return rows.filter((row) => row.front === front)
  }

  async count(sessionId: string, kind: string): Promise<number> {
    const { count } = await this.#db
      .selectFrom('front_records')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('session_id', '=', sessionId)
      .where('kind', '=', kind)
      .executeTakeFirstOrThrow()
    return Number(count)
  }

  /** Keeps the newest `keep` records of this kind that name the session. */
  async forgetOldest(sessionId: string, kind: string, keep: number): Promise<void> {
    const oldest = await this.#db
      .selectFrom('front_records')
      .select('key')
      .where('session_id', '=', sessionId)
      .where('kind', '=', kind)
      .orderBy('created_at', 'desc')
      .orderBy('key', 'desc')
      .offset(keep)
      .limit(1000)
      .execute()
    if (oldest.length === 0) return
    const keys = oldest.map(({ key }) => key)
    await this.#db
      .deleteFrom('front_records')
      .where('session_id', '=', sessionId)
      .where('kind', '=', kind)
      .where('key', 'in', keys)
      .execute()
  }

  async put(row: FrontRow): Promise<void> {
    await this.#db
      .insertInto('front_records')
      .values(row)
      .onConflict((conflict) =>
        conflict
          .columns(['front', 'project_id', 'kind', 'key'])
          .doUpdateSet({ data: row.data, session_id: row.session_id }),
      )
      .execute()
  }

  async insert(row: FrontRow): Promise<boolean> {
    try {
      await this.#db.insertInto('front_records').values(row).execute()
      return true
    } catch (error) {
      if (isDuplicate(error)) return false
      throw error
    }
  }

  async delete(front: string, projectId: string, kind: string, key: string): Promise<boolean> {
    const { numDeletedRows } = await this.#db
      .deleteFrom('front_records')
      .where('front', '=', front)
      .where('project_id', '=', projectId)
      .where('kind', '=', kind)
      .where('key', '=', key)
      .executeTakeFirst()
    return numDeletedRows > 0n
  }
}
