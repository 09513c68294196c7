import type { Kysely } from 'kysely'
import { bounded } from './bounds.ts'
import type { Tables } from './tables.ts'

export class SettingsRows {
  readonly #db: Kysely<Tables>
  readonly #appId: string

  constructor(db: Kysely<Tables>, appId: string) {
    this.#db = db
    this.#appId = appId
  }

  /** JSON, or undefined. Without a channel: the guild’s. */
  async get(guildId: string, channelId = ''): Promise<string | undefined> {
    const row = await this.#db
      .selectFrom('thread_settings')
      .select('settings')
      .where('app_id', '=', this.#appId)
      .where('guild_id', '=', guildId)
      .where('channel_id', '=', channelId)
      .executeTakeFirst()
    return row?.settings
  }

  /** The guild of a channel that has settings or threads. */
  async guildOf(channelId: string): Promise<string | undefined> {
    const set = await this.#db
      .selectFrom('thread_settings')
      .select('guild_id')
      .where('app_id', '=', this.#appId)
      .where('channel_id', '=', channelId)
      .executeTakeFirst()
    if (set) return set.guild_id
    const used = await this.#db
      .selectFrom('threads')
      .select('guild_id')
      .where('app_id', '=', this.#appId)
      .where('channel_id', '=', channelId)
      .executeTakeFirst()
    return used?.guild_id
  }

  async put(guildId: string, channelId: string, settings: string, now: number): Promise<void> {
    const row = bounded({
      app_id: this.#appId,
      guild_id: guildId,
      channel_id: channelId,
      settings,
      updated_at: now,
    })
    await this.#db
      .insertInto('thread_settings')
      .values(row)
      .onConflict((oc) =>
        oc
          .columns(['app_id', 'guild_id', 'channel_id'])
          .doUpdateSet({ settings: row.settings, updated_at: now }),
      )
      .execute()
  }
}
