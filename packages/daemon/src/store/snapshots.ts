import type { Kysely } from 'kysely'
import type { SnapshotRow, Tables } from './tables.ts'

export class Snapshots {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async get(projectId: string, id: string): Promise<SnapshotRow | undefined> {
    return this.#db
      .selectFrom('snapshots')
      .selectAll()
      .where('project_id', '=', projectId)
      .where('id', '=', id)
      .executeTakeFirst()
  }

  /** Newest first. */
  async list(
    projectId: string,
    options: { sessionId?: string; limit: number; after?: { createdAt: number; id: string } },
  ): Promise<SnapshotRow[]> {
    let query = this.#db.selectFrom('snapshots').selectAll().where('project_id', '=', projectId)
    if (options.sessionId !== undefined) query = query.where('session_id', '=', options.sessionId)
    const { after } = options
    if (after)
      query = query.where((eb) =>
        eb.or([
          eb('created_at', '<', after.createdAt),
          eb.and([eb('created_at', '=', after.createdAt), eb('id', '<', after.id)]),
        ]),
      )
    return query.orderBy('created_at', 'desc').orderBy('id', 'desc').limit(options.limit).execute()
  }

  /** The provider's ids of one daemon's snapshots. */
  async providerIds(instanceId: string): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('snapshots')
      .select('provider_id')
      .where('instance_id', '=', instanceId)
      .execute()
    return rows.map(({ provider_id }) => provider_id)
  }

  /** The number and total size of a project's snapshots. */
  async usage(projectId: string): Promise<{ snapshots: number; bytes: number }> {
    const row = await this.#db
      .selectFrom('snapshots')
      .select((eb) => [eb.fn.countAll().as('snapshots'), eb.fn.sum('size_bytes').as('bytes')])
      .where('project_id', '=', projectId)
      .executeTakeFirstOrThrow()
    return { snapshots: Number(row.snapshots), bytes: Number(row.bytes ?? 0) }
  }

  async insert(row: SnapshotRow): Promise<void> {
    await this.#db.insertInto('snapshots').values(row).execute()
  }

  async delete(projectId: string, id: string): Promise<boolean> {
    const { numDeletedRows } = await this.#db
      .deleteFrom('snapshots')
      .where('project_id', '=', projectId)
      .where('id', '=', id)
      .executeTakeFirst()
    return numDeletedRows > 0n
  }
}
