import { SandboxError } from '@sandkasten/sdk'
import type { Kysely } from 'kysely'
import { bounded } from './bounds.ts'
import type { ScheduleRow, Tables } from './tables.ts'
import { insertTurn } from './turns.ts'

export class ScheduleRows {
  readonly #db: Kysely<Tables>
  readonly #appId: string

  constructor(db: Kysely<Tables>, appId: string) {
    this.#db = db
    this.#appId = appId
  }

  /** The same id twice is one. Throws `quota_exceeded` if the thread has too many. */
  async insert(given: Omit<ScheduleRow, 'app_id'>, mostPerThread: number): Promise<void> {
    const row = bounded({ ...given, app_id: this.#appId })
    await this.#db.transaction().execute(async (trx) => {
      const { count } = await trx
        .selectFrom('thread_schedules')
        .select((eb) => eb.fn.countAll<number>().as('count'))
        .where('app_id', '=', this.#appId)
        .where('thread_id', '=', row.thread_id)
        .where('id', '!=', row.id)
        .executeTakeFirstOrThrow()
      if (Number(count) >= mostPerThread)
        throw new SandboxError('quota_exceeded', `${mostPerThread} messages are scheduled already.`, {
          details: { limit: mostPerThread },
        })
      await trx
        .insertInto('thread_schedules')
        .values(row)
        .onConflict((oc) => oc.column('id').doNothing())
        .execute()
    })
  }

  async list(threadId: string): Promise<ScheduleRow[]> {
    return await this.#db
      .selectFrom('thread_schedules')
      .selectAll()
      .where('app_id', '=', this.#appId)
      .where('thread_id', '=', threadId)
      .orderBy('due_at')
      .limit(100)
      .execute()
  }

  /** False: the thread has no schedule with this id. */
  async remove(threadId: string, id: string): Promise<boolean> {
    const { numDeletedRows } = await this.#db
      .deleteFrom('thread_schedules')
      .where('app_id', '=', this.#appId)
      .where('thread_id', '=', threadId)
      .where('id', '=', id)
      .executeTakeFirst()
    return Number(numDeletedRows) > 0
  }

  async removeOf(threadId: string): Promise<void> {
    await this.#db
      .deleteFrom('thread_schedules')
      .where('app_id', '=', this.#appId)
      .where('thread_id', '=', threadId)
      .execute()
  }

  /** Makes messages of what is due. Returns their threads. */
  async fire(now: number, mostOpen: number): Promise<string[]> {
    const due = await this.#db
      .selectFrom('thread_schedules')
      .selectAll()
      .where('app_id', '=', this.#appId)
      .where('due_at', '<=', now)
      .orderBy('due_at')
      .limit(100)
      .execute()
    const threads: string[] = []
    for (const { id, thread_id, text, due_at, every_ms } of due) {
      const message = `schedule:${id}:${due_at}`
      const isFired = await this.#db.transaction().execute(async (trx) => {
        const turn = {
          ...{ id: message, app_id: this.#appId, thread_id, message_id: message },
          ...{ state: 'queued' as const, is_final: 0, is_aborted: 0, text, files: '[]' },
          ...{ by_id: 'schedule', by_name: 'schedule', agent_message_id: null, ending: null },
          ...{ model: null, cost_micro_usd: null },
          ...{ created_at: now, started_at: null, ended_at: null },
        }
        try {
          await insertTurn(trx, turn, mostOpen)
        } catch (error) {
          // The queue is full: later.
          if (SandboxError.is(error, 'quota_exceeded')) return false
          throw error
        }
        if (every_ms === null) await trx.deleteFrom('thread_schedules').where('id', '=', id).execute()
        // What was missed while no process ran is due once.
        else
          await trx
            .updateTable('thread_schedules')
            .set({ due_at: Math.max(due_at + Number(every_ms), now + Number(every_ms) / 2) })
            .where('id', '=', id)
            .execute()
        return true
      })
      if (isFired) threads.push(thread_id)
    }
    return threads
  }
}
