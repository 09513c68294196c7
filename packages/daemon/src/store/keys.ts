import type { Kysely } from 'kysely'
import type { KeyRow, ProjectRow, Tables } from './tables.ts'

export type OpeningKey = KeyRow & Pick<ProjectRow, 'quotas' | 'policy'>

/** Begins the hash of a row that stands for a token. It is not a hash, so no key finds the row. */
const grantPrefix = 'token:'

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
      .select(['projects.quotas', 'projects.policy'])
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
      .where('hash', 'not like', `${grantPrefix}%`)
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

  /** The ids of keys and grants that can be used now. */
  async usableIds(projectId: string, now: number): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('keys')
      .select('id')
      .where('project_id', '=', projectId)
      .where('revoked_at', 'is', null)
      .where((eb) => eb.or([eb('expires_at', 'is', null), eb('expires_at', '>', now)]))
      .orderBy('created_at')
      .orderBy('id')
      .execute()
    return rows.map(({ id }) => id)
  }

  /**
   * Writes a row that stands for a token, so that access which was derived from the token can be checked later. The row
   * has the token's scopes, subject and end. False when the project already has `most` of them.
   */
  async insertGrant(row: Omit<KeyRow, 'hash'>, most: number): Promise<boolean> {
    const known = await this.#db.selectFrom('keys').select('id').where('id', '=', row.id).executeTakeFirst()
    if (known) return true
    return this.#db.transaction().execute(async (trx) => {
      await trx
        .deleteFrom('keys')
        .where('project_id', '=', row.project_id)
        .where('hash', 'like', `${grantPrefix}%`)
        .where('expires_at', '<=', row.created_at)
        .execute()
      const { count } = await trx
        .selectFrom('keys')
        .select((eb) => eb.fn.countAll<number>().as('count'))
        .where('project_id', '=', row.project_id)
        .where('hash', 'like', `${grantPrefix}%`)
        .executeTakeFirstOrThrow()
      if (Number(count) >= most) return false
      await trx
        .insertInto('keys')
        .values({ ...row, hash: `${grantPrefix}${row.project_id}:${row.id}` })
        .onConflict((conflict) => conflict.column('id').doNothing())
        .execute()
      return true
    })
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

  async projectNamed(name: string): Promise<ProjectRow | undefined> {
    return this.#db.selectFrom('projects').selectAll().where('name', '=', name).executeTakeFirst()
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

  /** The project with this name, created if it is missing. */
  async ensureProjectNamed(row: ProjectRow): Promise<ProjectRow> {
    await this.#db
      .insertInto('projects')
      .values(row)
      .onConflict((conflict) => conflict.column('name').doNothing())
      .execute()
    return (await this.projectNamed(row.name)) ?? row
  }

  async setPolicy(id: string, policy: string | null): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable('projects')
      .set({ policy })
      .where('id', '=', id)
      .executeTakeFirst()
    return numUpdatedRows > 0n
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
