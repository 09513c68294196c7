import { randomUUID } from 'node:crypto'
import type { Kysely } from 'kysely'
import { bounded } from './bounds.ts'
import type { AuditRow, Tables } from './tables.ts'

const keptMs = 90 * 24 * 3_600_000
/** Entries of one app. The oldest ones go. */
const mostEntries = 100_000

/** The log of actions. It contains no secret: callers pass names, never values. */
export class AuditLog {
  readonly #db: Kysely<Tables>
  readonly #appId: string

  constructor(db: Kysely<Tables>, appId: string) {
    this.#db = db
    this.#appId = appId
  }

  async add(given: Omit<AuditRow, 'id' | 'app_id'>): Promise<void> {
    await this.#db
      .insertInto('thread_audit')
      .values(bounded({ ...given, id: randomUUID(), app_id: this.#appId }))
      .execute()
  }

  /** The newest entries first. */
  list(guildId: string, { channelId, limit }: { channelId?: string; limit: number }): Promise<AuditRow[]> {
    let query = this.#db
      .selectFrom('thread_audit')
      .selectAll()
      .where('app_id', '=', this.#appId)
      .where('guild_id', '=', guildId)
    if (channelId !== undefined) query = query.where('channel_id', '=', channelId)
    return query.orderBy('at', 'desc').orderBy('id').limit(limit).execute()
  }

  async prune(now: number): Promise<void> {
    await this.#db
      .deleteFrom('thread_audit')
      .where('app_id', '=', this.#appId)
      .where('at', '<', now - keptMs)
      .execute()
    const oldest = await this.#db
      .selectFrom('thread_audit')
      .select('at')
      .where('app_id', '=', this.#appId)
      .orderBy('at', 'desc')
      .offset(mostEntries)
      .limit(1)
      .executeTakeFirst()
    if (oldest)
      await this.#db
        .deleteFrom('thread_audit')
        .where('app_id', '=', this.#appId)
        .where('at', '<=', oldest.at)
        .execute()
  }
}
