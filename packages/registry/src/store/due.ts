import type { Kysely } from 'kysely'
import type { SandboxRow, Tables } from './tables.ts'

/** Sandboxes of one provider and its credentials: their work is done side by side, and apart from that of others. */
export interface ProviderKey {
  readonly provider: string
  readonly credentials_id: string | null
}

/**
 * How far a row's times may be ahead of the clock. A row that is further ahead was written before the clock was set
 * back, or by a machine whose clock is ahead. If it is not due for long, it is due for a check: otherwise it would wait
 * until the clock gets there.
 */
export const aheadMs = 5 * 60_000
const longMs = 60 * 60_000

/** Live rows with due work. */
export class DueRows {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  /** The providers that have live rows, for each app. */
  async allProviders(): Promise<Array<ProviderKey & Pick<SandboxRow, 'app_id'>>> {
    return this.#db
      .selectFrom('sandboxes')
      .select(['provider', 'credentials_id', 'app_id'])
      .distinct()
      .where('live', '=', 1)
      .execute()
  }

  /** The providers that have rows with due work. */
  async providers(now: number): Promise<ProviderKey[]> {
    return this.#due(now).select(['provider', 'credentials_id']).distinct().execute()
  }

  /** The rows of one provider, the earliest first. */
  async of({ provider, credentials_id }: ProviderKey, now: number, limit = 100): Promise<SandboxRow[]> {
    return this.#due(now)
      .selectAll()
      .where('provider', '=', provider)
      .where('credentials_id', credentials_id === null ? 'is' : '=', credentials_id)
      .orderBy('due_at')
      .orderBy('id')
      .limit(limit)
      .execute()
  }

  /** Rows with an operation that runs, or that a process left unfinished. */
  async unfinished(): Promise<SandboxRow[]> {
    return this.#db
      .selectFrom('sandboxes')
      .selectAll()
      .where('live', '=', 1)
      .where('operation', 'is not', null)
      .execute()
  }

  /** The next time after `now` at which a row becomes due. */
  async next(now: number): Promise<number | undefined> {
    const row = await this.#db
      .selectFrom('sandboxes')
      .select((eb) => eb.fn.min('due_at').as('at'))
      .where('live', '=', 1)
      .where('due_at', '>', now)
      .executeTakeFirst()
    return row?.at === null || row?.at === undefined ? undefined : Number(row.at)
  }

  #due(now: number) {
    return this.#db
      .selectFrom('sandboxes')
      .where('live', '=', 1)
      .where('operation', 'is', null)
      .where('due_at', 'is not', null)
      .where((eb) => {
        const isAhead = eb.or([
          eb('last_used_at', '>', now + aheadMs),
          eb('last_checked_at', '>', now + aheadMs),
        ])
        return eb.or([eb('due_at', '<=', now), eb.and([eb('due_at', '>', now + longMs), isAhead])])
      })
  }
}
