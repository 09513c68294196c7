import type { Kysely } from 'kysely'
import type { Tables } from './tables.ts'

/** The columns of every tombstone. It keeps no secret, and nothing that a sandbox could be reached with. */
export function tombstoned(now: number) {
  return {
    live: 0,
    status: 'destroyed',
    destroyed_at: now,
    updated_at: now,
    provider_sandbox_id: null,
    base_url: null,
    env: null,
    opencode_password: null,
    expires_at: null,
    due_at: null,
    lease_holder: null,
    operation: null,
  } as const
}

/** Removes threads and holds of these sandboxes. Returns the threads. */
export async function removeUsers(trx: Kysely<Tables>, ids: readonly string[]): Promise<string[]> {
  const threads = await trx
    .deleteFrom('thread_sandboxes')
    .where('sandbox_id', 'in', ids)
    .returning('thread_id')
    .execute()
  await trx.deleteFrom('sandbox_holds').where('sandbox_id', 'in', ids).execute()
  return threads.map(({ thread_id }) => thread_id).sort()
}
