import { SandboxError } from '@sandkasten/sdk'
import type { Kysely } from 'kysely'
import { bounded } from './bounds.ts'
import type { SandboxRow, Tables } from './tables.ts'
import { lockLive, type ScopeKey } from './turn.ts'

/** Threads of one sandbox. */
const mostThreads = 1_000

export class Threads {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  /** Attaches the thread, and detaches it from another sandbox. False: the sandbox is no longer live. */
  async attach(
    { app_id, guild_id }: ScopeKey,
    threadId: string,
    sandboxId: string,
    now: number,
  ): Promise<boolean> {
    const row = bounded({ app_id, guild_id, thread_id: threadId, sandbox_id: sandboxId, created_at: now })
    return this.#db.transaction().execute(async (trx) => {
      if (!(await lockLive(trx, sandboxId))) return false
      const { count } = await trx
        .selectFrom('thread_sandboxes')
        .select((eb) => eb.fn.countAll<number>().as('count'))
        .where('sandbox_id', '=', sandboxId)
        .executeTakeFirstOrThrow()
      if (Number(count) >= mostThreads)
        throw new SandboxError('quota_exceeded', `${mostThreads} threads are attached to this sandbox.`, {
          hint: 'Detach threads that no longer need it.',
        })
      await trx
        .insertInto('thread_sandboxes')
        .values(row)
        .onConflict((oc) =>
          oc
            .columns(['app_id', 'guild_id', 'thread_id'])
            .doUpdateSet({ sandbox_id: sandboxId, created_at: now }),
        )
        .execute()
      return true
    })
  }

  /** False: it was not attached. */
  async detach({ app_id, guild_id }: ScopeKey, threadId: string): Promise<boolean> {
    const { numDeletedRows } = await this.#db
      .deleteFrom('thread_sandboxes')
      .where('app_id', '=', app_id)
      .where('guild_id', '=', guild_id)
      .where('thread_id', '=', threadId)
      .executeTakeFirst()
    return numDeletedRows > 0n
  }

  /** The live sandbox that the thread is attached to. */
  sandboxOf({ app_id, guild_id }: ScopeKey, threadId: string): Promise<SandboxRow | undefined> {
    return this.#db
      .selectFrom('sandboxes')
      .innerJoin('thread_sandboxes', 'thread_sandboxes.sandbox_id', 'sandboxes.id')
      .selectAll('sandboxes')
      .where('thread_sandboxes.app_id', '=', app_id)
      .where('thread_sandboxes.guild_id', '=', guild_id)
      .where('thread_sandboxes.thread_id', '=', threadId)
      .where('sandboxes.live', '=', 1)
      .executeTakeFirst()
  }

  /** The threads of each sandbox, the earliest first. Sandboxes without threads are absent. */
  async of(sandboxIds: readonly string[]): Promise<Map<string, string[]>> {
    const found = new Map<string, string[]>()
    if (sandboxIds.length === 0) return found
    const rows = await this.#db
      .selectFrom('thread_sandboxes')
      .select(['sandbox_id', 'thread_id'])
      .where('sandbox_id', 'in', sandboxIds)
      .orderBy('created_at')
      .orderBy('thread_id')
      .execute()
    for (const { sandbox_id, thread_id } of rows)
      found.set(sandbox_id, [...(found.get(sandbox_id) ?? []), thread_id])
    return found
  }
}
