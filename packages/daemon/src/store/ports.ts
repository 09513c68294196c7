import type { Kysely } from 'kysely'
import type { PortRow, Tables } from './tables.ts'

export class Ports {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async get(sessionId: string, port: number): Promise<PortRow | undefined> {
    return this.#db
      .selectFrom('ports')
      .selectAll()
      .where('session_id', '=', sessionId)
      .where('port', '=', port)
      .executeTakeFirst()
  }

  async list(sessionId: string): Promise<PortRow[]> {
    return this.#db
      .selectFrom('ports')
      .selectAll()
      .where('session_id', '=', sessionId)
      .orderBy('port')
      .execute()
  }

  async put(row: PortRow): Promise<void> {
    const { session_id: _, port: __, created_at: ___, ...changes } = row
    await this.#db
      .insertInto('ports')
      .values(row)
      .onConflict((conflict) => conflict.columns(['session_id', 'port']).doUpdateSet(changes))
      .execute()
  }

  async delete(sessionId: string, port: number): Promise<boolean> {
    const { numDeletedRows } = await this.#db
      .deleteFrom('ports')
      .where('session_id', '=', sessionId)
      .where('port', '=', port)
      .executeTakeFirst()
    return numDeletedRows > 0n
  }
}
