import type { Kysely } from 'kysely'
import type { Tables } from './tables.ts'

/** What names and limits belong to. */
export interface ScopeKey {
  readonly app_id: string
  readonly guild_id: string
}

/** Serializes transactions of one scope, also across processes: the row's lock is held until the transaction ends. */
export async function takeTurn(trx: Kysely<Tables>, { app_id, guild_id }: ScopeKey): Promise<void> {
  await trx
    .insertInto('registry_scopes')
    .values({ app_id, guild_id, turn: 1 })
    .onConflict((oc) =>
      oc.columns(['app_id', 'guild_id']).doUpdateSet((eb) => ({ turn: eb('registry_scopes.turn', '+', 1) })),
    )
    .execute()
}

/** Locks the row of a live sandbox until the transaction ends. False: it is not live. */
export async function lockLive(trx: Kysely<Tables>, id: string): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('sandboxes')
    .set((eb) => ({ live: eb.ref('live') }))
    .where('id', '=', id)
    .where('live', '=', 1)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}
