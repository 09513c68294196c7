import type { Insertable, Kysely, Selectable } from 'kysely'
import type { AuditRow, EventRow, Tables } from './tables.ts'

/** Events (for programs) and the audit log (for people). Entries are never changed; the oldest are removed. */
export class Records {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  /** Numbers the events in the given order. */
  async addEvents(rows: ReadonlyArray<Insertable<EventRow>>): Promise<void> {
    if (rows.length > 0) await this.#db.insertInto('events').values(rows).execute()
  }

  /** Oldest first. */
  async events(
    projectId: string,
    options: { after: number; limit: number; sessionId?: string },
  ): Promise<Array<Selectable<EventRow>>> {
    let query = this.#db
      .selectFrom('events')
      .selectAll()
      .where('project_id', '=', projectId)
      .where('id', '>', options.after)
    if (options.sessionId !== undefined) query = query.where('session_id', '=', options.sessionId)
    return query.orderBy('id').limit(options.limit).execute()
  }

  /** The newest events of one daemon's sessions, newest first. */
  async newestEvents(instanceId: string, limit: number): Promise<Array<Selectable<EventRow>>> {
    return this.#db
      .selectFrom('events')
      .innerJoin('sessions', 'sessions.id', 'events.session_id')
      .selectAll('events')
      .where('sessions.instance_id', '=', instanceId)
      .orderBy('events.id', 'desc')
      .limit(limit)
      .execute()
  }

  /** The number of the newest event of all, or 0. */
  async lastEvent(): Promise<number> {
    const row = await this.#db
      .selectFrom('events')
      .select((eb) => eb.fn.max('id').as('id'))
      .executeTakeFirst()
    return Number(row?.id ?? 0)
  }

  /** The number before the oldest kept event. A reader with a smaller cursor has missed events. */
  async eventsBegin(): Promise<number> {
    const row = await this.#db
      .selectFrom('events')
      .select((eb) => eb.fn.min('id').as('id'))
      .executeTakeFirst()
    return Number(row?.id ?? 1) - 1
  }

  async addAudit(rows: ReadonlyArray<Insertable<AuditRow>>): Promise<void> {
    if (rows.length > 0) await this.#db.insertInto('audit').values(rows).execute()
  }

  /** Newest first. */
  async audit(
    projectId: string,
    options: { before?: number; limit: number },
  ): Promise<Array<Selectable<AuditRow>>> {
    let query = this.#db.selectFrom('audit').selectAll().where('project_id', '=', projectId)
    if (options.before !== undefined) query = query.where('id', '<', options.before)
    return query.orderBy('id', 'desc').limit(options.limit).execute()
  }

  /** Removes the oldest entries beyond the limits. Returns the approximate bytes that are kept. */
  async prune(keep: Record<'events' | 'audit', Keep>): Promise<RecordBytes> {
    return { events: await this.#pruneEvents(keep.events), audit: await this.#pruneAudit(keep.audit) }
  }

  /** Removes from the beginning only. Numbers stay without gaps, so readers can tell what they missed. */
  async #pruneEvents(keep: Keep): Promise<number> {
    const ends = await this.#db
      .selectFrom('events')
      .select((eb) => [eb.fn.min('id').as('first'), eb.fn.max('id').as('last')])
      .executeTakeFirst()
    const last = Number(ends?.last ?? 0)
    if (last === 0) return 0
    const count = last - Number(ends?.first ?? 1) + 1
    const { most, size } = await this.#allowed('events', keep)
    if (count > most)
      await this.#db
        .deleteFrom('events')
        .where('id', '<=', last - most)
        .execute()
    return Math.round(Math.min(count, most) * size)
  }

  /** Removes from the project with the most entries, so that no project displaces another's. */
  async #pruneAudit(keep: Keep): Promise<number> {
    const { most, size } = await this.#allowed('audit', keep)
    const counts = await this.#db
      .selectFrom('audit')
      .select(['project_id', (eb) => eb.fn.countAll<number>().as('count')])
      .groupBy('project_id')
      .execute()
    const projects = counts.map(({ project_id, count }) => ({ id: project_id, count: Number(count) }))
    let all = projects.reduce((sum, { count }) => sum + count, 0)
    while (all > most) {
      const largest = projects.reduce((a, b) => (b.count > a.count ? b : a))
      const drop = Math.min(all - most, Math.ceil(largest.count / 10))
      const newest = await this.#db
        .selectFrom('audit')
        .select('id')
        .where('project_id', '=', largest.id)
        .orderBy('id')
        .offset(drop - 1)
        .limit(1)
        .executeTakeFirstOrThrow()
      await this.#db
        .deleteFrom('audit')
        .where('project_id', '=', largest.id)
        .where('id', '<=', newest.id)
        .execute()
      largest.count -= drop
      all -= drop
    }
    return Math.round(all * size)
  }

  /** The allowed number of rows and their average size, estimated from the newest rows. */
  async #allowed(table: 'events' | 'audit', keep: Keep): Promise<{ most: number; size: number }> {
    const newest = this.#db.selectFrom(table).selectAll().orderBy('id', 'desc').limit(1000)
    const rows = (await newest.execute()) as object[]
    const size = rows.reduce((sum, row) => sum + sizeOf(row), 0) / Math.max(1, rows.length)
    return { most: size === 0 ? keep.rows : Math.min(keep.rows, Math.floor(keep.bytes / size)), size }
  }
}

interface Keep {
  readonly rows: number
  readonly bytes: number
}

export type RecordBytes = Record<'events' | 'audit', number>

/** Counts texts by their length, and a fixed amount for numbers, keys and index entries. */
function sizeOf(row: object): number {
  return Object.values(row).reduce<number>(
    (sum, value) => sum + (typeof value === 'string' ? value.length : 8),
    48,
  )
}
