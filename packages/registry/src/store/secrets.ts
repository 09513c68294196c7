import { SandboxError } from '@sandkasten/sdk'
import type { Kysely } from 'kysely'
import { bounded } from './bounds.ts'
import type { SecretRow, Tables } from './tables.ts'
import { type ScopeKey, takeTurn } from './turn.ts'

export type SecretFacts = Omit<SecretRow, 'sealed'>

/** Secrets of scopes, with their encrypted values. */
export class SecretRows {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  /** In the order of their names, without values. */
  list({ app_id, guild_id }: ScopeKey): Promise<SecretFacts[]> {
    return this.#db
      .selectFrom('sandbox_secrets')
      .select(facts)
      .where('app_id', '=', app_id)
      .where('guild_id', '=', guild_id)
      .orderBy('secret')
      .execute()
  }

  find({ app_id, guild_id }: ScopeKey, secret: string): Promise<SecretRow | undefined> {
    return this.#db
      .selectFrom('sandbox_secrets')
      .selectAll()
      .where('app_id', '=', app_id)
      .where('guild_id', '=', guild_id)
      .where('secret', '=', secret)
      .executeTakeFirst()
  }

  /**
   * Adds a secret, or replaces its value and counts its version up. `id` is the one that the value was sealed for; throws
   * `conflict` if the secret has another id meanwhile, and `quota_exceeded` when the scope already has `most` secrets.
   */
  put(row: Omit<SecretRow, 'version'>, most: number): Promise<SecretFacts> {
    return this.#db.transaction().execute(async (trx) => {
      await takeTurn(trx, row)
      const found = await new SecretRows(trx).find(row, row.secret)
      if (found && found.id !== row.id) throw changed(row.secret)
      if (found)
        return trx
          .updateTable('sandbox_secrets')
          .set({ sealed: row.sealed, version: found.version + 1, updated_at: row.updated_at })
          .where('id', '=', found.id)
          .returning(facts)
          .executeTakeFirstOrThrow()
      const all = await new SecretRows(trx).list(row)
      if (all.length >= most)
        throw new SandboxError('quota_exceeded', `There are already ${most} secrets.`, {
          details: { limit: most },
          hint: 'Delete secrets that are not needed.',
        })
      return trx
        .insertInto('sandbox_secrets')
        .values(bounded({ ...row, version: 1 }))
        .returning(facts)
        .executeTakeFirstOrThrow()
    })
  }

  /** False: it did not exist. */
  async delete({ app_id, guild_id }: ScopeKey, secret: string): Promise<boolean> {
    const { numDeletedRows } = await this.#db
      .deleteFrom('sandbox_secrets')
      .where('app_id', '=', app_id)
      .where('guild_id', '=', guild_id)
      .where('secret', '=', secret)
      .executeTakeFirst()
    return numDeletedRows > 0n
  }
}

const facts = ['id', 'app_id', 'guild_id', 'secret', 'version', 'created_at', 'updated_at'] as const

function changed(secret: string): SandboxError {
  return new SandboxError('conflict', `Another process set the secret “${secret}” at the same time.`, {
    hint: 'Run the command again.',
  })
}
