import type { Kysely } from 'kysely'
import { isDuplicate } from './errors.ts'
import type { ExecRow, Tables } from './tables.ts'

/** Commands that carry an id: their requests, and their results once they are done. */
export class Execs {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async get(sessionId: string, execId: string): Promise<ExecRow | undefined> {
    return this.#db
      .selectFrom('execs')
      .selectAll()
      .where('session_id', '=', sessionId)
      .where('exec_id', '=', execId)
      .executeTakeFirst()
  }

  /** Newest first, without their output. */
  async list(sessionId: string, limit: number, kind?: 'terminal'): Promise<Array<Omit<ExecRow, 'events'>>> {
    return this.#db
      .selectFrom('execs')
      .select([
        'session_id',
        'exec_id',
        'kind',
        'status',
        'detached',
        'incarnation',
        'shell',
        'command',
        'fingerprint',
        'created_at',
        'ended_at',
        'result',
      ])
      .where('session_id', '=', sessionId)
      .where('kind', kind === 'terminal' ? '=' : '!=', 'terminal')
      .orderBy('created_at', 'desc')
      .orderBy('exec_id', 'desc')
      .limit(limit)
      .execute()
  }

  async running(sessionId: string): Promise<ExecRow[]> {
    return this.#db
      .selectFrom('execs')
      .selectAll()
      .where('session_id', '=', sessionId)
      .where('status', '=', 'running')
      .execute()
  }

  async countRunning(sessionId: string, kind: ExecRow['kind']): Promise<number> {
    const { count } = await this.#db
      .selectFrom('execs')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('session_id', '=', sessionId)
      .where('kind', '=', kind)
      .where('status', '=', 'running')
      .executeTakeFirstOrThrow()
    return Number(count)
  }

  /** False when there is a command with this id already. */
  async insert(row: ExecRow): Promise<boolean> {
    try {
      await this.#db.insertInto('execs').values(row).execute()
      return true
    } catch (error) {
      if (isDuplicate(error)) return false
      throw error
    }
  }

  async update(sessionId: string, execId: string, changes: Partial<ExecRow>): Promise<void> {
    await this.#db
      .updateTable('execs')
      .set(changes)
      .where('session_id', '=', sessionId)
      .where('exec_id', '=', execId)
      .execute()
  }

  async delete(sessionId: string, execId: string): Promise<void> {
    await this.#db
      .deleteFrom('execs')
      .where('session_id', '=', sessionId)
      .where('exec_id', '=', execId)
      .execute()
  }

  /** Done commands beyond the newest `keep` of a session. */
  async prune(sessionId: string, keep: number): Promise<void> {
    const oldest = await this.#db
      .selectFrom('execs')
      .select('exec_id')
      .where('session_id', '=', sessionId)
      .where('status', '!=', 'running')
      .orderBy('created_at', 'desc')
      .offset(keep)
      .limit(1000)
      .execute()
    if (oldest.length === 0) return
    await this.#db
      .deleteFrom('execs')
      .where('session_id', '=', sessionId)
      .where(
        'exec_id',
        'in',
        oldest.map(({ exec_id }) => exec_id),
      )
      .execute()
  }
}
