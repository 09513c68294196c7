import type { Kysely } from 'kysely'
import type { KeyRow, ProjectRow, Tables } from './tables.ts'

export type OpeningKey = KeyRow & Pick<ProjectRow, 'quotas'>

/** Projects and their keys. */
export class Keys {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  /** The key with its project's quotas, which most requests need next. */
  byHash(hash: string): Promise<OpeningKey | undefined> {
    return this.#db
      .selectFrom('keys')
      .innerJoin('projects', 'projects.id', 'keys.project_id')
      .selectAll('keys')
      .select('projects.quotas')
      .where('hash', '=', hash)
      .executeTakeFirst()
  }

  async get(projectId: string, id: string): Promise<KeyRow | undefined> {
    return this.#db
      .selectFrom('keys')
      .selectAll()
      .where('project_id', '=', projectId)
      .where('id', '=', id)
      .executeTakeFirst()
  }

  async list(projectId: string): Promise<KeyRow[]> {
    return this.#db
      .selectFrom('keys')
      .selectAll()
      .where('project_id', '=', projectId)
      .orderBy('created_at')
      .orderBy('id')
      .execute()
  }

  /** False when the project already has `most` usable keys. Keeps the newest `most` unusable keys. */
  async insert(row: KeyRow, most: number): Promise<boolean> {
    const now = row.created_at
    const all = await this.list(row.project_id)
    const unusable = all.filter(
      ({ revoked_at, expires_at }) => revoked_at !== null || (expires_at !== null && expires_at <= now),
    )
    if (all.length - unusable.length >= most) return false
    const forgotten = unusable.slice(0, Math.max(0, unusable.length - most)).map(({ id }) => id)
    if (forgotten.length > 0) await this.#db.deleteFrom('keys').where('id', 'in', forgotten).execute()
    await this.#db.insertInto('keys').values(row).execute()
    return true
  }

  /** For keys that are stored in a file: updates the row to match the file. */
  async upsert(row: KeyRow): Promise<void> {
    const { id: _, created_at: __, ...changes } = row
    await this.#db
      .insertInto('keys')
      .values(row)
      .onConflict((conflict) => conflict.column('id').doUpdateSet(changes))
      .execute()
  }

  /** False when there is no such key to revoke. */
  async revoke(projectId: string, id: string, now: number): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable('keys')
      .set({ revoked_at: now })
      .where('project_id', '=', projectId)
      .where('id', '=', id)
      .where('revoked_at', 'is', null)
      .executeTakeFirst()
    return numUpdatedRows > 0n
  }

  async project(id: string): Promise<ProjectRow | undefined> {
    return this.#db.selectFrom('projects').selectAll().where('id', '=', id).executeTakeFirst()
  }

  async projects(): Promise<ProjectRow[]> {
    return this.#db.selectFrom('projects').selectAll().orderBy('created_at').orderBy('id').execute()
  }

  async insertProject(row: ProjectRow): Promise<void> {
    await this.#db.insertInto('projects').values(row).execute()
  }

  async ensureProject(row: ProjectRow): Promise<void> {
    await this.#db
      .insertInto('projects')
      .values(row)
      .onConflict((conflict) => conflict.column('id').doNothing())
      .execute()
  }

  async setQuotas(id: string, quotas: string | null): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable('projects')
      .set({ quotas })
      .where('id', '=', id)
      .executeTakeFirst()
    return numUpdatedRows > 0n
  }
}
