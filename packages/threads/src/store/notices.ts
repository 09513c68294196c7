import type { Kysely } from 'kysely'
import { bounded } from './bounds.ts'
import type { NoticeRow, Tables } from './tables.ts'

/** Notices that the chat has not shown yet. */
export class NoticeRows {
  readonly #db: Kysely<Tables>
  readonly #appId: string

  constructor(db: Kysely<Tables>, appId: string) {
    this.#db = db
    this.#appId = appId
  }

  async put(given: Omit<NoticeRow, 'app_id'>): Promise<void> {
    await this.#db
      .insertInto('thread_notices')
      .values(bounded({ ...given, app_id: this.#appId }))
      .onConflict((oc) => oc.doNothing())
      .execute()
  }

  list(threadId: string): Promise<NoticeRow[]> {
    return this.#db
      .selectFrom('thread_notices')
      .selectAll()
      .where('app_id', '=', this.#appId)
      .where('thread_id', '=', threadId)
      .orderBy('created_at')
      .execute()
  }

  async threads(): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('thread_notices')
      .select('thread_id')
      .distinct()
      .where('app_id', '=', this.#appId)
      .execute()
    return rows.map(({ thread_id }) => thread_id)
  }

  async shown(threadId: string, key: string): Promise<void> {
    await this.#db
      .deleteFrom('thread_notices')
      .where('app_id', '=', this.#appId)
      .where('thread_id', '=', threadId)
      .where('notice_key', '=', key)
      .execute()
  }
}
