import { SandboxError } from '@sandkasten/sdk'
import type { ScopeKey } from './store/turn.ts'
import type { Scope } from './types.ts'

/** A checked scope as the columns of a row. Empty texts are the scope of the command line. */
export interface ScopeColumns extends ScopeKey {
  readonly channel_id: string | null
}

export function scopeColumns(scope: Scope = {}): ScopeColumns {
  for (const key of Object.keys(scope))
    if (!['appId', 'guildId', 'channelId'].includes(key))
      throw new SandboxError('invalid_argument', `A scope has no field “${key}”.`, {
        hint: 'It takes: appId, guildId, channelId.',
      })
  return {
    app_id: checkId(scope.appId, 'appId'),
    guild_id: checkId(scope.guildId, 'guildId'),
    channel_id: checkId(scope.channelId, 'channelId') || null,
  }
}

/** An id of an app, guild, channel or thread: 1 to 200 bytes that can be printed. */
export function checkThreadId(id: unknown): string {
  const checked = checkId(id, 'threadId')
  if (checked !== '') return checked
  throw new SandboxError('invalid_argument', '`threadId` must not be empty.')
}

function checkId(id: unknown, option: string): string {
  if (id === undefined) return ''
  if (
    typeof id === 'string' &&
    Buffer.byteLength(id) <= 200 &&
    id.isWellFormed() &&
    !/[\p{C}\p{Zl}\p{Zp}]/u.test(id)
  )
    return id
  throw new SandboxError('invalid_argument', `\`${option}\` must be at most 200 bytes that can be printed.`)
}
