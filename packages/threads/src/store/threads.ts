import { SandboxError } from '@sandkasten/sdk'
import type { Kysely } from 'kysely'
import { bounded } from './bounds.ts'
import type { Tables, ThreadRow } from './tables.ts'
import { insertTurn, type NewTurn } from './turns.ts'
import { fenced } from './workers.ts'

export type ThreadChanges = Partial<Omit<ThreadRow, 'app_id' | 'thread_id' | 'created_at' | 'updated_at'>>

export interface ThreadFilter {
  readonly guildId?: string
  readonly channelId?: string
  readonly sandbox?: string
}

/** Threads that are neither ended nor archived. */
const live = ['pending', 'ready', 'failed'] as const
/** A list that is longer than this is cut. */
const mostListed = 1_000

export class ThreadRows {
  readonly #db: Kysely<Tables>
  readonly #appId: string

  constructor(db: Kysely<Tables>, appId: string) {
    this.#db = db
    this.#appId = appId
  }

  /**
   * Inserts the thread with its first message. Returns the existing one if there is one with this id. Checks limits in
   * the same transaction.
   */
  async insert(
    given: Omit<ThreadRow, 'app_id'>,
    limits: ThreadLimits,
    turn?: NewTurn,
  ): Promise<{ row: ThreadRow; isNew: boolean }> {
    const row: ThreadRow = bounded({ ...given, app_id: this.#appId })
    return this.#db.transaction().execute(async (trx) => {
      const existing = await one(trx, this.#appId, row.thread_id)
      if (existing) return { row: existing, isNew: false }
      const count = async (column: 'created_by' | 'guild_id', value: string) => {
        const found = await trx
          .selectFrom('threads')
          .select((eb) => eb.fn.countAll<number>().as('count'))
          .where('app_id', '=', this.#appId)
          .where('guild_id', '=', row.guild_id)
          .where(column, '=', value)
          .where('state', 'in', live)
          .executeTakeFirstOrThrow()
        return Number(found.count)
      }
      if ((await count('created_by', row.created_by)) >= limits.perUser)
        throw tooMany(limits.perUser, 'You have')
      if ((await count('guild_id', row.guild_id)) >= limits.perGuild)
        throw tooMany(limits.perGuild, 'There are')
      await trx.insertInto('threads').values(row).execute()
      if (turn) await insertTurn(trx, { ...turn, app_id: this.#appId }, 1)
      return { row, isNew: true }
    })
  }

  get(threadId: string): Promise<ThreadRow | undefined> {
    return one(this.#db, this.#appId, threadId)
  }

  list({ guildId, channelId, sandbox }: ThreadFilter = {}): Promise<ThreadRow[]> {
    let query = this.#db.selectFrom('threads').selectAll().where('app_id', '=', this.#appId)
    if (guildId !== undefined) query = query.where('guild_id', '=', guildId)
    if (channelId !== undefined) query = query.where('channel_id', '=', channelId)
    if (sandbox !== undefined) query = query.where('sandbox', '=', sandbox)
    return query.orderBy('created_at', 'desc').limit(mostListed).execute()
  }

  /** Threads with work of their own. */
  async due(): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('threads')
      .select('thread_id')
      .where('app_id', '=', this.#appId)
      .where('due', '=', 1)
      .execute()
    return rows.map(({ thread_id }) => thread_id)
  }

  /** With a token: only while the worker with this token works; else it throws `conflict`. False: no such thread. */
  async update(
    threadId: string,
    changes: ThreadChanges,
    now: number,
    { token, from }: { token?: number; from?: readonly ThreadRow['state'][] } = {},
  ): Promise<boolean> {
    return fenced(this.#db, this.#appId, token, async (trx) => {
      let query = trx
        .updateTable('threads')
        .set({ ...bounded(changes), updated_at: now })
        .where('app_id', '=', this.#appId)
        .where('thread_id', '=', threadId)
      if (from) query = query.where('state', 'in', from)
      return (await query.executeTakeFirst()).numUpdatedRows > 0n
    })
  }
}

export interface ThreadLimits {
  readonly perUser: number
  readonly perGuild: number
}

function one(db: Kysely<Tables>, appId: string, threadId: string): Promise<ThreadRow | undefined> {
  return db
    .selectFrom('threads')
    .selectAll()
    .where('app_id', '=', appId)
    .where('thread_id', '=', threadId)
    .executeTakeFirst()
}

function tooMany(limit: number, who: string): SandboxError {
  return new SandboxError('quota_exceeded', `${who} ${limit} open conversations already.`, {
    hint: 'Archive conversations that are done.',
    details: { limit },
  })
}
