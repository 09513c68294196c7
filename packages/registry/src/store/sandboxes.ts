import { isDuplicate } from '@sandkasten/database'
import { type Kysely, sql, type Updateable } from 'kysely'
import { bounded } from './bounds.ts'
import { nameTaken } from './errors.ts'
import { type InsertLimits, insertSandbox } from './insert.ts'
import type { Operation, RecordStatus, SandboxRow, Tables } from './tables.ts'
import { removeUsers, tombstoned } from './tombstone.ts'
import type { ScopeKey } from './turn.ts'

export interface SandboxFilter {
  readonly status?: readonly RecordStatus[]
  readonly provider?: string
  readonly channelId?: string
  /** Also tombstones. */
  readonly destroyed?: boolean
  /** Default 1,000. */
  readonly limit?: number
}

export type SandboxChanges = Omit<
  Updateable<SandboxRow>,
  'id' | 'app_id' | 'guild_id' | 'name' | 'live' | 'lease_token' | 'lease_holder' | 'lease_beat' | 'operation'
>

/** What a process saw of a lease. Every write of a holder changes it, and so does a release. */
export type SeenLease = Pick<SandboxRow, 'lease_token' | 'lease_beat'>

export interface UpdateOptions {
  /** Frees the lease. `unfinished` keeps the operation in the row, so the next holder recovers it. */
  readonly release?: 'done' | 'unfinished'
  readonly operation?: Operation
}

export class Sandboxes {
  readonly #db: Kysely<Tables>
  readonly #now: () => number

  constructor(db: Kysely<Tables>, now: () => number) {
    this.#db = db
    this.#now = now
  }

  byId(id: string): Promise<SandboxRow | undefined> {
    return this.#db.selectFrom('sandboxes').selectAll().where('id', '=', id).executeTakeFirst()
  }

  /** Also tombstones. */
  async byIds(ids: readonly string[]): Promise<SandboxRow[]> {
    if (ids.length === 0) return []
    return this.#db.selectFrom('sandboxes').selectAll().where('id', 'in', ids).execute()
  }

  /** The live row with this name. */
  byName({ app_id, guild_id }: ScopeKey, name: string): Promise<SandboxRow | undefined> {
    return this.#db
      .selectFrom('sandboxes')
      .selectAll()
      .where('app_id', '=', app_id)
      .where('guild_id', '=', guild_id)
      .where('name', '=', name)
      .where('live', '=', 1)
      .executeTakeFirst()
  }

  async names({ app_id, guild_id }: ScopeKey): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('sandboxes')
      .select('name')
      .where('app_id', '=', app_id)
      .where('guild_id', '=', guild_id)
      .where('live', '=', 1)
      .orderBy('name')
      .execute()
    return rows.map(({ name }) => name)
  }

  /** Most recently used first. */
  list({ app_id, guild_id }: ScopeKey, filter: SandboxFilter = {}): Promise<SandboxRow[]> {
    let query = this.#db
      .selectFrom('sandboxes')
      .selectAll()
      .where('app_id', '=', app_id)
      .where('guild_id', '=', guild_id)
    if (!filter.destroyed) query = query.where('live', '=', 1)
    if (filter.status) query = query.where('status', 'in', filter.status)
    if (filter.provider !== undefined) query = query.where('provider', '=', filter.provider)
    if (filter.channelId !== undefined) query = query.where('channel_id', '=', filter.channelId)
    return query
      .orderBy('last_used_at', 'desc')
      .orderBy('id')
      .limit(filter.limit ?? 1_000)
      .execute()
  }

  /** Live rows of every scope, for reconciliation. */
  allOf(provider: string): Promise<SandboxRow[]> {
    return this.#db
      .selectFrom('sandboxes')
      .selectAll()
      .where('provider', '=', provider)
      .where('live', '=', 1)
      .orderBy('id')
      .execute()
  }

  /**
   * Inserts the row of a new sandbox, already leased to `holder`, if the limits allow it. A live `failed` row of that
   * name without a sandbox becomes a tombstone first. Throws `conflict` if the name is taken.
   */
  insert(row: SandboxRow, limits: InsertLimits = {}): Promise<void> {
    return insertSandbox(this.#db, bounded(row), limits)
  }

  /** Takes a free lease. Undefined: it is not free, the last holder left an operation, or the row is not live. */
  take(id: string, holder: string, operation: Operation): Promise<SandboxRow | undefined> {
    return this.#db
      .updateTable('sandboxes')
      .set((eb) => ({
        lease_token: eb('lease_token', '+', 1),
        lease_holder: holder,
        lease_beat: 0,
        operation,
      }))
      .where('id', '=', id)
      .where('live', '=', 1)
      .where('lease_holder', 'is', null)
      .where('operation', 'is', null)
      .returningAll()
      .executeTakeFirst()
  }

  /**
   * Takes over the lease of a dead holder, or one with an unfinished operation, and only in the state that was seen.
   * The operation stays in the row until the new holder has recovered it.
   */
  takeOver(id: string, holder: string, seen: SeenLease): Promise<SandboxRow | undefined> {
    return this.#db
      .updateTable('sandboxes')
      .set((eb) => ({ lease_token: eb('lease_token', '+', 1), lease_holder: holder, lease_beat: 0 }))
      .where('id', '=', id)
      .where('live', '=', 1)
      .where('lease_token', '=', seen.lease_token)
      .where('lease_beat', '=', seen.lease_beat)
      .returningAll()
      .executeTakeFirst()
  }

  /** False: the lease was taken over. */
  async renew(id: string, token: number): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable('sandboxes')
      .set((eb) => ({ lease_beat: eb('lease_beat', '+', 1) }))
      .where('id', '=', id)
      .where('lease_token', '=', token)
      .where('lease_holder', 'is not', null)
      .executeTakeFirst()
    return numUpdatedRows > 0n
  }

  /** Changes the row as the holder of the lease. Undefined: the lease was taken over, and nothing changed. */
  update(
    id: string,
    token: number,
    changes: SandboxChanges,
    { release, operation }: UpdateOptions = {},
  ): Promise<SandboxRow | undefined> {
    const isChange = Object.keys(changes).length > 0
    return this.#db
      .updateTable('sandboxes')
      .set((eb) => ({
        ...(isChange && { updated_at: this.#now() }),
        ...bounded(changes),
        ...(operation !== undefined && { operation }),
        ...(release !== undefined && { lease_holder: null }),
        ...(release === 'done' && { operation: null }),
        lease_beat: eb('lease_beat', '+', 1),
      }))
      .where('id', '=', id)
      .where('lease_token', '=', token)
      .where('lease_holder', 'is not', null)
      .returningAll()
      .executeTakeFirst()
  }

  /**
   * Makes the row a tombstone as the holder of the lease, and frees the name: secrets, threads and holds are removed.
   * Returns the row and the threads that were attached. Undefined: the lease was taken over, and nothing changed.
   */
  async tombstone(
    id: string,
    token: number,
    changes: Pick<SandboxChanges, 'error_message' | 'snapshot_id'> = {},
  ): Promise<{ row: SandboxRow; threads: string[] } | undefined> {
    return this.#db.transaction().execute(async (trx) => {
      const row = await trx
        .updateTable('sandboxes')
        .set({ ...bounded(changes), ...tombstoned(this.#now()) })
        .where('id', '=', id)
        .where('lease_token', '=', token)
        .where('lease_holder', 'is not', null)
        .where('live', '=', 1)
        .returningAll()
        .executeTakeFirst()
      if (!row) return undefined
      return { row, threads: await removeUsers(trx, [id]) }
    })
  }

  /** Facts that need no lease, because they decide nothing: when it was last used, seen or is due. */
  async note(
    id: string,
    changes: Pick<
      SandboxChanges,
      | 'last_used_at'
      | 'last_checked_at'
      | 'due_at'
      | 'expires_at'
      | 'base_url'
      | 'label'
      | 'opencode_password'
    >,
  ): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable('sandboxes')
      .set(bounded(changes))
      .where('id', '=', id)
      .where('live', '=', 1)
      .executeTakeFirst()
    return numUpdatedRows > 0n
  }

  /** What a process sees of a sandbox without its lease. Changes nothing once its status changed or it was replaced. */
  async noteSeen(
    { id, incarnation, status }: Pick<SandboxRow, 'id' | 'incarnation' | 'status'>,
    changes: Pick<
      SandboxChanges,
      'last_used_at' | 'last_checked_at' | 'expires_at' | 'due_at' | 'error_message'
    >,
  ): Promise<void> {
    await this.#db
      .updateTable('sandboxes')
      .set(bounded(changes))
      .where('id', '=', id)
      .where('live', '=', 1)
      .where('incarnation', '=', incarnation)
      .where('status', '=', status)
      .execute()
  }

  /** Throws `conflict` if the name is taken. False: the row is gone. */
  async rename(id: string, name: string, now: number): Promise<boolean> {
    try {
      const { numUpdatedRows } = await this.#db
        .updateTable('sandboxes')
        .set(bounded({ name, updated_at: now }))
        .where('id', '=', id)
        .where('live', '=', 1)
        .executeTakeFirst()
      return numUpdatedRows > 0n
    } catch (error) {
      throw isDuplicate(error) ? nameTaken(name) : error
    }
  }

  /**
   * Deletes tombstones of sandboxes that were destroyed before this time, and all but the last `most` of each scope.
   * Returns how many there were.
   */
  async prune({ before, most }: { before: number; most: number }): Promise<number> {
    const { numDeletedRows } = await this.#db
      .deleteFrom('sandboxes')
      .where('live', '=', 0)
      .where((eb) =>
        eb.or([
          eb('destroyed_at', '<', before),
          eb('id', 'in', (sub) =>
            sub
              .selectFrom((from) =>
                from
                  .selectFrom('sandboxes')
                  .select(['id', placeInScope.as('place')])
                  .where('live', '=', 0)
                  .as('placed'),
              )
              .select('placed.id')
              .where('placed.place', '>', most),
          ),
        ]),
      )
      .executeTakeFirst()
    return Number(numDeletedRows)
  }
}

/** 1: the tombstone that was made last in its scope. */
const placeInScope = sql<number>`
  row_number() over (partition by app_id, guild_id order by destroyed_at desc, id)`
