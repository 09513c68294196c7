import { isDuplicate } from '@sandkasten/database'
import { type Kysely, sql } from 'kysely'
import type { IdempotencyRow, SessionRow, SessionStatus, Tables } from './tables.ts'
import { takeTurn } from './turn.ts'
import { type CheckVolumes, checkVolumes } from './volumes.ts'

export interface Usage {
  sessions: number
  cpu: number
  mem_mb: number
  disk_mb: number
  /** Live sessions whose disk has no limit; they are not in `disk_mb`. */
  unlimited_disks: number
}

/** Throws when a quota is exceeded. Creates and starts of a project run this check one after another. */
export type CheckUsage = (usage: Usage) => void

export interface SessionFilter {
  projectId: string
  status?: readonly SessionStatus[]
  name?: string
  subject?: string
  labels?: Readonly<Record<string, string>>
  limit: number
  /** The last row of the previous page. */
  after?: { createdAt: number; id: string }
}

export class Sessions {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  get(id: string): Promise<SessionRow | undefined> {
    return this.#db.selectFrom('sessions').selectAll().where('id', '=', id).executeTakeFirst()
  }

  /** Newest first. */
  async list({
    projectId,
    status,
    name,
    subject,
    labels,
    limit,
    after,
  }: SessionFilter): Promise<SessionRow[]> {
    let query = this.#db.selectFrom('sessions').selectAll().where('project_id', '=', projectId)
    if (status) query = query.where('status', 'in', status)
    if (name !== undefined) query = query.where('name', '=', name)
    if (subject !== undefined) query = query.where('subject', '=', subject)
    // Labels are JSON text: `"key":"value"` cannot occur inside one of its strings. (LIKE would not tell A from a.)
    for (const [key, value] of Object.entries(labels ?? {})) {
      const part = `${JSON.stringify(key)}:${JSON.stringify(value)}`
      query = query.where(sql<boolean>`replace(labels, ${part}, '') <> labels`)
    }
    if (after)
      query = query.where((eb) =>
        eb.or([
          eb('created_at', '<', after.createdAt),
          eb.and([eb('created_at', '=', after.createdAt), eb('id', '<', after.id)]),
        ]),
      )
    return query.orderBy('created_at', 'desc').orderBy('id', 'desc').limit(limit).execute()
  }

  /** Moves the start times of the leases of one daemon's live sessions. */
  async shiftLeases(instanceId: string, ms: number): Promise<void> {
    await this.#db
      .updateTable('sessions')
      .set((eb) => ({
        last_activity: eb('last_activity', '+', ms),
        started_at: eb('started_at', '+', ms),
        status_at: eb('status_at', '+', ms),
      }))
      .where('instance_id', '=', instanceId)
      .where('live', '=', 1)
      .execute()
  }

  /** The live sessions of one daemon. */
  async live(instanceId: string): Promise<SessionRow[]> {
    return this.#db
      .selectFrom('sessions')
      .selectAll()
      .where('instance_id', '=', instanceId)
      .where('live', '=', 1)
      .execute()
  }

  /** The running sessions of one daemon that have a network policy. */
  async withPolicy(instanceId: string): Promise<Array<Pick<SessionRow, 'id' | 'sandbox_id'>>> {
    return this.#db
      .selectFrom('sessions')
      .select(['id', 'sandbox_id'])
      .where('instance_id', '=', instanceId)
      .where('live', '=', 1)
      .where('status', 'in', ['running', 'paused'])
      .where('network', '=', 'policy')
      .execute()
  }

  /** The live session that has this sandbox. */
  async withSandbox(instanceId: string, sandboxId: string): Promise<SessionRow | undefined> {
    return this.#db
      .selectFrom('sessions')
      .selectAll()
      .where('instance_id', '=', instanceId)
      .where('live', '=', 1)
      .where('sandbox_id', '=', sandboxId)
      .executeTakeFirst()
  }

  /** The lease columns of one daemon's live sessions. Read often, so other columns are left out. */
  async leases(instanceId: string) {
    return this.#db
      .selectFrom('sessions')
      .select(['id', 'status', 'status_at', 'started_at', 'last_activity', 'ttl_ms', 'on_idle'])
      .select(['lifetime_ms', 'on_lifetime', 'stopped_ttl_ms'])
      .where('instance_id', '=', instanceId)
      .where('live', '=', 1)
      .execute()
  }

  /** Sessions of one daemon whose status changed at `since` or later. */
  async changedSince(instanceId: string, since: number): Promise<SessionRow[]> {
    return this.#db
      .selectFrom('sessions')
      .selectAll()
      .where('instance_id', '=', instanceId)
      .where('status_at', '>=', since)
      .execute()
  }

  async countByStatus(instanceId: string): Promise<Array<{ status: SessionStatus; count: number }>> {
    const rows = await this.#db
      .selectFrom('sessions')
      .select(['status', (eb) => eb.fn.countAll<number>().as('count')])
      .where('instance_id', '=', instanceId)
      .groupBy('status')
      .execute()
    return rows.map(({ status, count }) => ({ status, count: Number(count) }))
  }

  async usage(projectId: string): Promise<Usage> {
    return usageOf(this.#db, projectId)
  }

  /**
   * Inserts a session if `check` finds room in the project, and `volumes` no other writer. Creates of one project run
   * one after another, so two cannot both take the last place. Without `check` nothing is counted.
   */
  async insert(
    row: SessionRow,
    options: Checks & { idempotency?: IdempotencyRow } = {},
  ): Promise<InsertResult> {
    const { idempotency, check, volumes } = options
    try {
      if (!idempotency && !check && !volumes) {
        await this.#db.insertInto('sessions').values(row).execute()
        return { kind: 'created' }
      }
      return await this.#db.transaction().execute(async (trx) => {
        await takeTurn(trx, row.project_id)
        if (idempotency) {
          const earlier = await trx
            .selectFrom('idempotency')
            .selectAll()
            .where('project_id', '=', idempotency.project_id)
            .where('key', '=', idempotency.key)
            .executeTakeFirst()
          if (earlier)
            return {
              kind: 'repeat',
              sessionId: earlier.session_id,
              fingerprint: earlier.fingerprint,
            } as const
        }
        check?.(await usageOf(trx, row.project_id))
        if (volumes) await checkVolumes(trx, row, volumes)
        await trx.insertInto('sessions').values(row).execute()
        if (idempotency) await trx.insertInto('idempotency').values(idempotency).execute()
        return { kind: 'created' } as const
      })
    } catch (error) {
      if (isDuplicate(error)) return { kind: 'name-taken' }
      throw error
    }
  }

  /** Inserts several sessions of one project if it has room for all. Returns the ids whose name was free. */
  async insertAll(rows: readonly SessionRow[], { check, volumes }: Checks = {}): Promise<Set<string>> {
    const [first] = rows
    if (!first) return new Set()
    return this.#db.transaction().execute(async (trx) => {
      await takeTurn(trx, first.project_id)
      check?.(await usageOf(trx, first.project_id))
      if (volumes) await checkVolumes(trx, first, volumes)
      const inserted = await trx
        .insertInto('sessions')
        .values(rows)
        .onConflict((conflict) => conflict.doNothing())
        .returning('id')
        .execute()
      return new Set(inserted.map(({ id }) => id))
    })
  }

  /** Counts a session that is about to start as running, if its project has room and its volumes no other writer. */
  async reserveStart(session: SessionRow, { check, volumes }: Checks): Promise<void> {
    const { id, project_id } = session
    await this.#db.transaction().execute(async (trx) => {
      await takeTurn(trx, project_id)
      check?.(await usageOf(trx, project_id))
      if (volumes) await checkVolumes(trx, session, volumes)
      await trx.updateTable('sessions').set({ starting: 1 }).where('id', '=', id).execute()
    })
  }

  /** Releases reserved starts: of one session whose start failed, or of a daemon that ended during starts. */
  async forgetStarts(where: { id: string } | { instance_id: string }): Promise<void> {
    const [[column, value]] = Object.entries(where) as [['id' | 'instance_id', string]]
    await this.#db
      .updateTable('sessions')
      .set({ starting: 0 })
      .where(column, '=', value)
      .where('starting', '=', 1)
      .execute()
  }

  /** Changes a session if it has one of these statuses; otherwise returns undefined. */
  async update(
    id: string,
    from: readonly SessionStatus[] | undefined,
    changes: Partial<SessionRow>,
  ): Promise<SessionRow | undefined> {
    const query = this.#db.updateTable('sessions').set(changes).where('id', '=', id)
    return (from ? query.where('status', 'in', from) : query).returningAll().executeTakeFirst()
  }

  /** Removes the row of a failed create, so that a repeat with the same key tries again. */
  async forget(id: string): Promise<void> {
    await this.#db.transaction().execute(async (trx) => {
      await trx.deleteFrom('idempotency').where('session_id', '=', id).execute()
      await trx.deleteFrom('sessions').where('id', '=', id).execute()
    })
  }

  async forgetIdempotency(sessionId: string): Promise<void> {
    await this.#db.deleteFrom('idempotency').where('session_id', '=', sessionId).execute()
  }

  /** Deletes sessions that ended long ago. */
  async prune(instanceId: string, endedBefore: number): Promise<number> {
    const old = await this.#db
      .selectFrom('sessions')
      .select('id')
      .where('instance_id', '=', instanceId)
      .where('live', '=', 0)
      .where('status_at', '<', endedBefore)
      .limit(500)
      .execute()
    for (const { id } of old) await this.forget(id)
    return old.length
  }

  /** Removes, in batches, ended sessions of each project except the newest `keep`. */
  async pruneBeyond(keep: number): Promise<number> {
    const full = await this.#db
      .selectFrom('sessions')
      .select('project_id')
      .where('live', '=', 0)
      .groupBy('project_id')
      .having((eb) => eb.fn.countAll(), '>', keep)
      .execute()
    let pruned = 0
    for (const { project_id } of full) {
      const oldest = await this.#db
        .selectFrom('sessions')
        .select('id')
        .where('project_id', '=', project_id)
        .where('live', '=', 0)
        .orderBy('created_at', 'desc')
        .offset(keep)
        .limit(500)
        .execute()
      for (const { id } of oldest) await this.forget(id)
      pruned += oldest.length
    }
    return pruned
  }
}

export type InsertResult =
  | { kind: 'created' }
  | { kind: 'name-taken' }
  | { kind: 'repeat'; sessionId: string; fingerprint: string }

interface Checks {
  check?: CheckUsage | undefined
  /** For a session with volumes. */
  volumes?: CheckVolumes | undefined
}

async function usageOf(db: Kysely<Tables>, projectId: string): Promise<Usage> {
  const awake = sql`case when status in ('creating', 'running', 'paused') or starting = 1 then 1 else 0 end`
  const row = await db
    .selectFrom('sessions')
    .select((eb) => [
      eb.fn.countAll<number>().as('sessions'),
      sql<number | null>`sum(${awake} * cpu)`.as('cpu'),
      sql<number | null>`sum(${awake} * mem_mb)`.as('mem_mb'),
      sql<number | null>`sum(disk_mb)`.as('disk_mb'),
      sql<number | null>`sum(case when disk_mb = 0 then 1 else 0 end)`.as('unlimited_disks'),
    ])
    .where('project_id', '=', projectId)
    .where('live', '=', 1)
    .executeTakeFirstOrThrow()
  return {
    sessions: Number(row.sessions),
    cpu: Number(row.cpu ?? 0),
    mem_mb: Number(row.mem_mb ?? 0),
    disk_mb: Number(row.disk_mb ?? 0),
    unlimited_disks: Number(row.unlimited_disks ?? 0),
  }
}
