import type { Context } from './context.ts'
import type { Thread } from './spec/threads.ts'
import type { ThreadRow } from './store/index.ts'

export async function threadOf({ store }: Pick<Context, 'store'>, row: ThreadRow): Promise<Thread> {
  const open = await store.turns.open(row.thread_id)
  const optional = {
    sandbox: row.sandbox ?? undefined,
    mode: row.mode ?? undefined,
    model: row.model ?? undefined,
    error:
      row.error_message === null ? undefined : [row.error_message, row.error_hint].filter(Boolean).join(' '),
  }
  return {
    threadId: row.thread_id,
    channelId: row.channel_id,
    ...(row.guild_id !== '' && { guildId: row.guild_id }),
    title: row.title,
    state: row.state,
    createdBy: row.created_by,
    isWorking: open.length > 0,
    queued: Math.max(0, open.length - 1),
    ...(Object.fromEntries(
      Object.entries(optional).filter(([, value]) => value !== undefined),
    ) as typeof optional),
  }
}
