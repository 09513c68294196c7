import { isDuplicate } from '@sandkasten/database'
import { type Kysely, sql } from 'kysely'
import type { ExecRow, Tables } from './tables.ts'

/** A row's share of table and indexes, without its long texts. */
const rowBytes = 400

/** `omitted`: the command has a result that the list does not include. */
export type ListedExec = Omit<ExecRow, 'events'> & { omitted: boolean }

/** Commands with an id, their requests and their results. */
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

  /**
   * Newest first, without output. Results are included up to `maxBytes` in all; the rows of omitted ones say so.
   */
  async list(
    sessionId: string,
    options: { limit: number; maxBytes: number; kind?: 'terminal' },
  ): Promise<ListedExec[]> {
    const rows = await this.#db
      .selectFrom('execs')
      .select([
        'session_id',
        'project_id',
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
        'bytes',
      ])
      .where('session_id', '=', sessionId)
      .where('kind', options.kind === 'terminal' ? '=' : '!=', 'terminal')
      .orderBy('created_at', 'desc')
      .orderBy('exec_id', 'desc')
      .limit(options.limit)
      .execute()
    let bytes = 0
    const fit = rows.filter((row) => {
      bytes += row.bytes
      return bytes <= options.maxBytes
    })
    const results = new Map<string, string | null>()
    for (let at = 0; at < fit.length; at += 500) {
      const ids = fit.slice(at, at + 500).map(({ exec_id }) => exec_id)
      const found = await this.#db
        .selectFrom('execs')
        .select(['exec_id', 'result'])
        .where('session_id', '=', sessionId)
        .where('exec_id', 'in', ids)
        .execute()
      for (const { exec_id, result } of found) results.set(exec_id, result)
    }
    return rows.map((row) => ({
      ...row,
      result: results.get(row.exec_id) ?? null,
      omitted: !results.has(row.exec_id) && row.status === 'done',
    }))
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

  /** False when a command with this id exists. */
  async insert(row: ExecRow): Promise<boolean> {
    try {
      await this.#db
        .insertInto('execs')
        .values({ ...row, bytes: rowBytes + row.command.length })
        .execute()
      return true
    } catch (error) {
      if (isDuplicate(error)) return false
      throw error
    }
  }

  async update(sessionId: string, execId: string, changes: Partial<ExecRow>): Promise<void> {
    const output = (changes.result?.length ?? 0) + (changes.events?.length ?? 0)
    await this.#db
      .updateTable('execs')
      .set({ ...changes, bytes: sql`${rowBytes} + length(command) + ${output}` })
      .where('session_id', '=', sessionId)
      .where('exec_id', '=', execId)
      .execute()
  }

  /** The bytes of ended commands, by project. */
  async keptBytes(): Promise<Map<string, number>> {
    const rows = await this.#db
      .selectFrom('execs')
      .select(['project_id', (eb) => eb.fn.sum<number>('bytes').as('bytes')])
      .where('ended_at', 'is not', null)
      .groupBy('project_id')
      .execute()
    return new Map(rows.map(({ project_id, bytes }) => [project_id, Number(bytes)]))
  }

  /** Removes at most 500 of the project's oldest ended commands, until `bytes` are freed. Returns the freed bytes. */
  async dropOldest(projectId: string, bytes: number): Promise<number> {
    const oldest = await this.#db
      .selectFrom('execs')
      .select(['session_id', 'exec_id', 'bytes'])
      .where('project_id', '=', projectId)
      .where('ended_at', 'is not', null)
      .orderBy('ended_at')
      .limit(500)
      .execute()
    const bySession = new Map<string, string[]>()
    let freed = 0
    for (const { session_id, exec_id, bytes: size } of oldest) {
      if (freed >= bytes) break
      freed += size
      bySession.set(session_id, [...(bySession.get(session_id) ?? []), exec_id])
    }
    for (const [session, ids] of bySession)
      await this.#db
        .deleteFrom('execs')
        .where('session_id', '=', session)
        .where('exec_id', 'in', ids)
        .where('ended_at', 'is not', null)
        .execute()
    return freed
  }

  async delete(sessionId: string, execId: string): Promise<void> {
    await this.#db
      .deleteFrom('execs')
      .where('session_id', '=', sessionId)
      .where('exec_id', '=', execId)
      .execute()
  }

  /** Removes ended commands of a session except the newest `keep`. */
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
