import { SandboxError } from '@sandkasten/sdk'
import type { Kysely } from 'kysely'
import { bounded } from './bounds.ts'
import type { HoldRow, Operation, Tables } from './tables.ts'

/** Holds of one sandbox. */
const mostHolds = 1_000

/** Operations that may end the sandbox under its users. */
const interrupting: readonly Operation[] = ['stop', 'snapshot', 'destroy']

export class Holds {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  /**
   * Inserts the hold, and marks the sandbox as used. False: the sandbox is no longer live, has another incarnation, or
   * an operation is about to stop it. An operation that took its lease earlier is seen here; one that takes its lease
   * later finds the hold.
   */
  async insert(hold: HoldRow, { incarnation }: { incarnation?: number } = {}): Promise<boolean> {
    const row = bounded(hold)
    return this.#db.transaction().execute(async (trx) => {
      let query = trx
        .updateTable('sandboxes')
        .set({ last_used_at: row.created_at })
        .where('id', '=', row.sandbox_id)
        .where('live', '=', 1)
        .where((eb) => eb.or([eb('operation', 'is', null), eb('operation', 'not in', interrupting)]))
      if (incarnation !== undefined) query = query.where('incarnation', '=', incarnation)
      const { numUpdatedRows } = await query.executeTakeFirst()
      if (numUpdatedRows === 0n) return false
      const { count } = await trx
        .selectFrom('sandbox_holds')
        .select((eb) => eb.fn.countAll<number>().as('count'))
        .where('sandbox_id', '=', row.sandbox_id)
        .executeTakeFirstOrThrow()
      if (Number(count) >= mostHolds)
        throw new SandboxError('quota_exceeded', `This sandbox is in use ${mostHolds} times.`, {
          hint: 'Release holds that are no longer needed.',
        })
      await trx.insertInto('sandbox_holds').values(row).execute()
      return true
    })
  }

  /** The holds of these sandboxes, the earliest first. */
  async of(sandboxIds: readonly string[]): Promise<HoldRow[]> {
    if (sandboxIds.length === 0) return []
    return this.#db
      .selectFrom('sandbox_holds')
      .selectAll()
      .where('sandbox_id', 'in', sandboxIds)
      .orderBy('created_at')
      .orderBy('id')
      .execute()
  }

  /** All holds, for the search for dead holders. */
  all(): Promise<HoldRow[]> {
    return this.#db.selectFrom('sandbox_holds').selectAll().orderBy('created_at').orderBy('id').execute()
  }

  /** Counts the beats of these holds up. Returns those that still exist. */
  async beat(ids: readonly string[]): Promise<string[]> {
    if (ids.length === 0) return []
    const rows = await this.#db
      .updateTable('sandbox_holds')
      .set((eb) => ({ beat: eb('beat', '+', 1) }))
      .where('id', 'in', ids)
      .returning('id')
      .execute()
    return rows.map(({ id }) => id)
  }

  /** False: it was released or removed already. */
  async release(id: string): Promise<boolean> {
    const { numDeletedRows } = await this.#db
      .deleteFrom('sandbox_holds')
      .where('id', '=', id)
      .executeTakeFirst()
    return numDeletedRows > 0n
  }

  /** Removes the hold of a dead process. Its beat must still be the one seen: a process that beats is alive. */
  async removeDead({ id, beat }: Pick<HoldRow, 'id' | 'beat'>): Promise<boolean> {
    const { numDeletedRows } = await this.#db
      .deleteFrom('sandbox_holds')
      .where('id', '=', id)
      .where('beat', '=', beat)
      .executeTakeFirst()
    return numDeletedRows > 0n
  }
}
