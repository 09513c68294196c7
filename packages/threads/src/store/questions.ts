import type { Kysely } from 'kysely'
import { bounded } from './bounds.ts'
import type { QuestionRow, Tables } from './tables.ts'

export class QuestionRows {
  readonly #db: Kysely<Tables>
  readonly #appId: string

  constructor(db: Kysely<Tables>, appId: string) {
    this.#db = db
    this.#appId = appId
  }

  /** Stores the question if it is new. Returns the stored one. */
  async once(given: Omit<QuestionRow, 'app_id'>): Promise<QuestionRow> {
    const row = bounded({ ...given, app_id: this.#appId })
    await this.#db
      .insertInto('thread_questions')
      .values(row)
      .onConflict((oc) => oc.column('id').doNothing())
      .execute()
    return (await this.get(row.id))!
  }

  get(id: string): Promise<QuestionRow | undefined> {
    return this.#db
      .selectFrom('thread_questions')
      .selectAll()
      .where('app_id', '=', this.#appId)
      .where('id', '=', id)
      .executeTakeFirst()
  }

  /** Questions whose outcome the chat does not show yet. */
  unsettled(threadId: string): Promise<QuestionRow[]> {
    return this.#db
      .selectFrom('thread_questions')
      .selectAll()
      .where('app_id', '=', this.#appId)
      .where('thread_id', '=', threadId)
      .where('is_settled', '=', 0)
      .orderBy('created_at')
      .execute()
  }

  /** Threads with replies that were not handed over yet. */
  async answeredThreads(): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('thread_questions')
      .select('thread_id')
      .distinct()
      .where('app_id', '=', this.#appId)
      .where('is_settled', '=', 0)
      .where('state', '!=', 'open')
      .execute()
    return rows.map(({ thread_id }) => thread_id)
  }

  /** False: it was answered already, or has ended. */
  async answer(id: string, reply: string, outcome: string): Promise<boolean> {
    return this.#close(id, { state: 'answered', reply, outcome })
  }

  async end(id: string, outcome: string): Promise<boolean> {
    return this.#close(id, { state: 'ended', outcome })
  }

  async settled(id: string): Promise<void> {
    await this.#db
      .updateTable('thread_questions')
      .set({ is_settled: 1 })
      .where('app_id', '=', this.#appId)
      .where('id', '=', id)
      .execute()
  }

  async #close(id: string, changes: Partial<QuestionRow>): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable('thread_questions')
      .set(bounded(changes))
      .where('app_id', '=', this.#appId)
      .where('id', '=', id)
      .where('state', '=', 'open')
      .executeTakeFirst()
    return numUpdatedRows > 0n
  }
}
