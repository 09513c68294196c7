import type { Kysely } from 'kysely'
import type { Tables } from './tables.ts'

/** Serializes creates and starts of a project: the row's lock is held until the transaction ends. */
export async function takeTurn(trx: Kysely<Tables>, projectId: string): Promise<void> {
  await trx
    .updateTable('projects')
    .set((eb) => ({ turn: eb('turn', '+', 1) }))
    .where('id', '=', projectId)
    .execute()
}
