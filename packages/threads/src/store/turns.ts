import { SandboxError } from '@sandkasten/sdk'
import type { Kysely } from 'kysely'
import { bounded } from './bounds.ts'
import type { Tables, TurnRow } from './tables.ts'
import { fenced } from './workers.ts'

/** A turn before it has its place in the thread. */
export type NewTurn = Omit<TurnRow, 'app_id' | 'seq'>
export type TurnChanges = Partial<Omit<TurnRow, 'id' | 'app_id' | 'thread_id' | 'message_id' | 'seq'>>

/** Ended turns and their posts are forgotten after this long. */
const keptMs = 30 * 24 * 3_600_000

export class TurnRows {
  readonly #db: Kysely<Tables>
  readonly #appId: string

  constructor(db: Kysely<Tables>, appId: string) {
    this.#db = db
    this.#appId = appId
  }

  /** Inserts the message at the end of its thread. Throws `quota_exceeded` if too many wait. */
  async insert(given: NewTurn, mostOpen: number): Promise<'first' | 'queued' | 'known' | 'unknown-thread'> {
    return this.#db
      .transaction()
      .execute((trx) => insertTurn(trx, { ...given, app_id: this.#appId }, mostOpen))
  }

  get(id: string): Promise<TurnRow | undefined> {
    return this.#db.selectFrom('thread_turns').selectAll().where('id', '=', id).executeTakeFirst()
  }

  async has(threadId: string, messageId: string): Promise<boolean> {
    const row = await this.#db
      .selectFrom('thread_turns')
      .select('id')
      .where('app_id', '=', this.#appId)
      .where('thread_id', '=', threadId)
      .where('message_id', '=', messageId)
      .executeTakeFirst()
    return row !== undefined
  }

  /** Turns that are not completely shown, in their order. */
  open(threadId: string): Promise<TurnRow[]> {
    return this.#db
      .selectFrom('thread_turns')
      .selectAll()
      .where('app_id', '=', this.#appId)
      .where('thread_id', '=', threadId)
      .where('is_final', '=', 0)
      .orderBy('seq')
      .execute()
  }

  /** How many turns of each thread are not final, and how many of them a user ended. */
  async openThreads(): Promise<Array<{ threadId: string; open: number; aborted: number }>> {
    const rows = await this.#db
      .selectFrom('thread_turns')
      .select(['thread_id', (eb) => eb.fn.countAll<number>().as('open')])
      .select((eb) => eb.fn.sum<number>('is_aborted').as('aborted'))
      .where('app_id', '=', this.#appId)
      .where('is_final', '=', 0)
      .groupBy('thread_id')
      .execute()
    return rows.map(({ thread_id, open, aborted }) => ({
      threadId: thread_id,
      open: Number(open),
      aborted: Number(aborted),
    }))
  }

  /** Ends all turns without showing it: their thread is gone. */
  async drop(threadId: string, now: number): Promise<void> {
    await this.#db
      .updateTable('thread_turns')
      .set({ state: 'aborted', is_final: 1, is_aborted: 1, ending: null, ended_at: now })
      .where('app_id', '=', this.#appId)
      .where('thread_id', '=', threadId)
      .where('is_final', '=', 0)
      .execute()
  }

  /** Marks all turns that are not final as ended by a user. Returns how many. */
  async abort(threadId: string): Promise<number> {
    const { numUpdatedRows } = await this.#db
      .updateTable('thread_turns')
      .set({ is_aborted: 1 })
      .where('app_id', '=', this.#appId)
      .where('thread_id', '=', threadId)
      .where('is_final', '=', 0)
      .executeTakeFirst()
    return Number(numUpdatedRows)
  }

  async update(id: string, changes: TurnChanges, token?: number): Promise<void> {
    await fenced(this.#db, this.#appId, token, (trx) =>
      trx.updateTable('thread_turns').set(bounded(changes)).where('id', '=', id).execute(),
    )
  }

  /** Ids of all turns that may have attachments. */
  async openIds(): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('thread_turns')
      .select('id')
      .where('app_id', '=', this.#appId)
      .where('is_final', '=', 0)
      .execute()
    return rows.map(({ id }) => id)
  }

  /** Forgets old turns, posts and questions. Message ids of chats do not come again after this long. */
  async prune(now: number): Promise<void> {
    const before = now - keptMs
    await this.#db
      .deleteFrom('thread_turns')
      .where('app_id', '=', this.#appId)
      .where('is_final', '=', 1)
      .where('ended_at', '<', before)
      .execute()
    await this.#db
      .deleteFrom('thread_questions')
      .where('app_id', '=', this.#appId)
      .where('is_settled', '=', 1)
      .where('created_at', '<', before)
      .execute()
    await this.#db
      .deleteFrom('thread_posts')
      .where('app_id', '=', this.#appId)
      .where('created_at', '<', before)
      .execute()
  }
}

/** Inserts a turn within a transaction. */
export async function insertTurn(
  trx: Kysely<Tables>,
  given: Omit<TurnRow, 'seq'>,
  mostOpen: number,
): Promise<'first' | 'queued' | 'known' | 'unknown-thread'> {
  const { app_id, thread_id, message_id } = given
  // The lock on the thread makes inserts of one thread run one after another.
  const { numUpdatedRows } = await trx
    .updateTable('threads')
    .set({ updated_at: given.created_at })
    .where('app_id', '=', app_id)
    .where('thread_id', '=', thread_id)
    .where('state', '!=', 'ended')
    .executeTakeFirst()
  if (numUpdatedRows === 0n) return 'unknown-thread'
  const of = () =>
    trx.selectFrom('thread_turns').where('app_id', '=', app_id).where('thread_id', '=', thread_id)
  if (await of().select('id').where('message_id', '=', message_id).executeTakeFirst()) return 'known'
  const { last } = await of()
    .select((eb) => eb.fn.max('seq').as('last'))
    .executeTakeFirstOrThrow()
  const { open } = await of()
    .select((eb) => eb.fn.countAll<number>().as('open'))
    .where('is_final', '=', 0)
    .executeTakeFirstOrThrow()
  if (Number(open) >= mostOpen)
    throw new SandboxError('quota_exceeded', `${mostOpen} messages wait for their answers already.`, {
      hint: 'Wait for an answer, or abort.',
      details: { limit: mostOpen },
    })
  await trx
    .insertInto('thread_turns')
    .values(bounded({ ...given, seq: Number(last ?? 0) + 1 }))
    .execute()
  return Number(open) === 0 ? 'first' : 'queued'
}
