import { SandboxError } from '@sandkasten/sdk'
import type { Kysely } from 'kysely'
import { bounded } from './bounds.ts'
import type { Tables, WorkerRow } from './tables.ts'

/** The lease of the process that works for an app. */
export class WorkerRows {
  readonly #db: Kysely<Tables>
  readonly #appId: string

  constructor(db: Kysely<Tables>, appId: string) {
    this.#db = db
    this.#appId = appId
  }

  async get(): Promise<WorkerRow> {
    await this.#db
      .insertInto('thread_workers')
      .values(bounded({ app_id: this.#appId, token: 0, holder: null, beat: 0 }))
      .onConflict((oc) => oc.column('app_id').doNothing())
      .execute()
    return this.#db
      .selectFrom('thread_workers')
      .selectAll()
      .where('app_id', '=', this.#appId)
      .executeTakeFirstOrThrow()
  }

  /** Takes the lease if it is still as it was seen. Returns the new token. */
  async take(holder: string, seen: Pick<WorkerRow, 'token' | 'beat'>): Promise<number | undefined> {
    const row = await this.#db
      .updateTable('thread_workers')
      .set({ ...bounded({ holder }), token: seen.token + 1, beat: 0 })
      .where('app_id', '=', this.#appId)
      .where('token', '=', seen.token)
      .where('beat', '=', seen.beat)
      .returning('token')
      .executeTakeFirst()
    return row?.token
  }

  /** False: another process has the lease. */
  async beat(token: number): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable('thread_workers')
      .set((eb) => ({ beat: eb('beat', '+', 1) }))
      .where('app_id', '=', this.#appId)
      .where('token', '=', token)
      .executeTakeFirst()
    return numUpdatedRows > 0n
  }

  async release(token: number): Promise<void> {
    await this.#db
      .updateTable('thread_workers')
      .set({ holder: null })
      .where('app_id', '=', this.#appId)
      .where('token', '=', token)
      .execute()
  }
}

/** Runs writes of a worker in a transaction that locks its lease. Throws `conflict` if another process has it. */
export function fenced<T>(
  db: Kysely<Tables>,
  appId: string,
  token: number | undefined,
  work: (trx: Kysely<Tables>) => Promise<T>,
): Promise<T> {
  if (token === undefined) return work(db)
  return db.transaction().execute(async (trx) => {
    const { numUpdatedRows } = await trx
      .updateTable('thread_workers')
      .set({ token })
      .where('app_id', '=', appId)
      .where('token', '=', token)
      .executeTakeFirst()
    if (numUpdatedRows === 0n)
      throw new SandboxError('conflict', 'Another process works for these threads now.')
    return work(trx)
  })
}
