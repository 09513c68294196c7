import { SandboxError } from '@sandkasten/sdk'
import type { Kysely } from 'kysely'
import { bounded } from './bounds.ts'
import type { ProviderRow, Tables } from './tables.ts'
import { takeTurn } from './turn.ts'

/** Providers that were set up, with their encrypted credentials. At most one of an app is the default. */
export class ProviderRows {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  byId(id: string): Promise<ProviderRow | undefined> {
    return this.#db.selectFrom('sandbox_providers').selectAll().where('id', '=', id).executeTakeFirst()
  }

  byProvider(appId: string, provider: string): Promise<ProviderRow | undefined> {
    return this.#db
      .selectFrom('sandbox_providers')
      .selectAll()
      .where('app_id', '=', appId)
      .where('provider', '=', provider)
      .executeTakeFirst()
  }

  /** The app's default, if it is stored. */
  default(appId: string): Promise<ProviderRow | undefined> {
    return this.#db
      .selectFrom('sandbox_providers')
      .selectAll()
      .where('app_id', '=', appId)
      .where('is_default', '=', 1)
      .executeTakeFirst()
  }

  /** The providers of one app, or of all apps, by name. */
  list(appId?: string): Promise<ProviderRow[]> {
    let query = this.#db.selectFrom('sandbox_providers').selectAll()
    if (appId !== undefined) query = query.where('app_id', '=', appId)
    return query.orderBy('app_id').orderBy('provider').execute()
  }

  /**
   * Inserts the row, or replaces the row with this id. Read the id of existing credentials with `byProvider`, because
   * encrypted texts are bound to the id of their row. `is_default: 1` makes the provider the default; 0 leaves the
   * default as it is. Throws `conflict` if the app has this provider under another id.
   */
  async upsert(row: ProviderRow): Promise<ProviderRow> {
    const checked = bounded(row)
    const { id, app_id, provider, is_default, created_at: _, ...changes } = checked
    return this.#db.transaction().execute(async (trx) => {
      await takeTurn(trx, { app_id, guild_id: '' })
      if (is_default === 1) await clearDefault(trx, app_id)
      const written = await trx
        .insertInto('sandbox_providers')
        .values(checked)
        .onConflict((oc) =>
          oc
            .columns(['provider', 'app_id'])
            .doUpdateSet({ ...changes, ...(is_default === 1 && { is_default }) })
            .where('sandbox_providers.id', '=', id),
        )
        .returningAll()
        .executeTakeFirst()
      if (written) return written
      throw new SandboxError('conflict', `Another process set up ${provider} at the same time.`, {
        hint: 'Run the command again.',
      })
    })
  }

  /** Makes the provider the app's default; undefined: the app has no stored default. False: it is not stored. */
  async setDefault(appId: string, provider: string | undefined): Promise<boolean> {
    return this.#db.transaction().execute(async (trx) => {
      await takeTurn(trx, { app_id: appId, guild_id: '' })
      if (provider === undefined) {
        await clearDefault(trx, appId)
        return true
      }
      const wanted = await trx
        .selectFrom('sandbox_providers')
        .select('id')
        .where('app_id', '=', appId)
        .where('provider', '=', provider)
        .executeTakeFirst()
      if (!wanted) return false
      await clearDefault(trx, appId)
      await trx.updateTable('sandbox_providers').set({ is_default: 1 }).where('id', '=', wanted.id).execute()
      return true
    })
  }

  /** Throws `conflict`, with the names in `details.sandboxes`, while live sandboxes need it. False: it is not stored. */
  async delete(id: string, { force = false }: { force?: boolean } = {}): Promise<boolean> {
    return this.#db.transaction().execute(async (trx) => {
      if (!(await lockProvider(trx, id))) return false
      const users = await trx
        .selectFrom('sandboxes')
        .select('name')
        .where('credentials_id', '=', id)
        .where('live', '=', 1)
        .orderBy('name')
        .execute()
      if (users.length > 0 && !force)
        throw new SandboxError('conflict', `${users.length} sandboxes need these credentials.`, {
          hint: 'Destroy the sandboxes first, or use force.',
          details: { sandboxes: users.map(({ name }) => name) },
        })
      await trx.deleteFrom('sandbox_providers').where('id', '=', id).execute()
      return true
    })
  }

  /** The credentials were used successfully. */
  async checked(id: string, now: number): Promise<void> {
    await this.#db.updateTable('sandbox_providers').set({ checked_at: now }).where('id', '=', id).execute()
  }
}

/** Locks the row until the transaction ends. False: it does not exist. */
export async function lockProvider(trx: Kysely<Tables>, id: string): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('sandbox_providers')
    .set((eb) => ({ is_default: eb.ref('is_default') }))
    .where('id', '=', id)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

async function clearDefault(trx: Kysely<Tables>, appId: string): Promise<void> {
  await trx
    .updateTable('sandbox_providers')
    .set({ is_default: 0 })
    .where('app_id', '=', appId)
    .where('is_default', '=', 1)
    .execute()
}
