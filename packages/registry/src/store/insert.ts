import { SandboxError } from '@sandkasten/sdk'
import type { Kysely } from 'kysely'
import { nameTaken } from './errors.ts'
import { lockProvider } from './providers.ts'
import type { SandboxRow, Tables } from './tables.ts'
import { removeUsers, tombstoned } from './tombstone.ts'
import { type ScopeKey, takeTurn } from './turn.ts'

export interface InsertLimits {
  /** Live sandboxes of one app and guild. */
  readonly perGuild?: number
  /** Live sandboxes of one channel. */
  readonly perChannel?: number
}

/** Failed creates of one scope that are kept, so that people can read why they failed. */
const mostFailed = 20

/** See `Sandboxes.insert`. Inserts of one scope run one after another, so two of them cannot share the last free place. */
export async function insertSandbox(
  db: Kysely<Tables>,
  row: SandboxRow,
  { perGuild = Infinity, perChannel = Infinity }: InsertLimits,
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await takeTurn(trx, row)
    await buryFailed(trx, row, row)
    const live = await trx
      .selectFrom('sandboxes')
      .select(['name', 'channel_id', 'status', 'provider_sandbox_id', 'snapshot_id'])
      .where('app_id', '=', row.app_id)
      .where('guild_id', '=', row.guild_id)
      .where('live', '=', 1)
      .execute()
    if (live.some(({ name }) => name === row.name)) throw nameTaken(row.name)
    // A failed create without a sandbox costs nothing, so it does not count.
    const counted = live.filter(
      ({ status, provider_sandbox_id, snapshot_id }) =>
        status !== 'failed' || provider_sandbox_id !== null || snapshot_id !== null,
    )
    const inChannel = counted.filter(({ channel_id }) => channel_id === row.channel_id)
    if (counted.length >= perGuild) throw tooMany(perGuild, 'here')
    if (row.channel_id !== null && inChannel.length >= perChannel)
      throw tooMany(perChannel, 'in this channel')
    if (row.credentials_id !== null && !(await lockProvider(trx, row.credentials_id)))
      throw new SandboxError('unauthenticated', `The credentials of ${row.provider} were removed.`, {
        hint: `Set up ${row.provider} again.`,
      })
    await trx.insertInto('sandboxes').values(row).execute()
  })
}

/** Makes tombstones of the failed create with this name, and of the oldest ones if there are many. */
async function buryFailed(trx: Kysely<Tables>, scope: ScopeKey, row: SandboxRow): Promise<void> {
  const failed = await trx
    .selectFrom('sandboxes')
    .select(['id', 'name'])
    .where('app_id', '=', scope.app_id)
    .where('guild_id', '=', scope.guild_id)
    .where('live', '=', 1)
    .where('status', '=', 'failed')
    .where('provider_sandbox_id', 'is', null)
    .where('snapshot_id', 'is', null)
    .where('lease_holder', 'is', null)
    .where('operation', 'is', null)
    .orderBy('updated_at', 'desc')
    .orderBy('id')
    .execute()
  const ids = failed.filter(({ name }, at) => name === row.name || at >= mostFailed).map(({ id }) => id)
  if (ids.length === 0) return
  // The lease may have been taken meanwhile.
  const buried = await trx
    .updateTable('sandboxes')
    .set(tombstoned(row.created_at))
    .where('id', 'in', ids)
    .where('lease_holder', 'is', null)
    .returning('id')
    .execute()
  if (buried.length > 0)
    await removeUsers(
      trx,
      buried.map(({ id }) => id),
    )
}

function tooMany(limit: number, where: string): SandboxError {
  return new SandboxError('quota_exceeded', `There are already ${limit} sandboxes ${where}.`, {
    hint: 'Destroy sandboxes that are not needed.',
    details: { limit },
  })
}
