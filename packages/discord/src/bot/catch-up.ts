import type { Thread } from '@sandkasten/threads'
import { type Client, type Guild, PermissionFlagsBits, SnowflakeUtil } from 'discord.js'
import type { Place } from '../commands/command.ts'
import type { Incoming } from '../messages/incoming.ts'
import { isOutage, type RawMessage } from '../rest/rest.ts'
import { missedOf } from './incoming.ts'
import { type Log, reasonOf } from './log.ts'

/** Messages of this long before the bot was last seen alive are read again: it may have ended while it handled them. */
const overlapMs = 120_000
/** Older messages stay unanswered: their authors do not wait any more. */
const mostAwayMs = 24 * 3600_000
/** In one thread, at most this many hundreds of messages. */
const mostPages = 10

export interface CatchUpOptions {
  readonly client: Client<true>
  readonly place: Place
  /** When the bot was last alive, in milliseconds since 1970. */
  readonly since: number | undefined
  readonly log: Log
  readonly handle: (message: Incoming) => Promise<void>
  /** The engine’s thread has no thread in Discord. */
  readonly reopen: (thread: Thread) => Promise<boolean>
}

/**
 * Brings the engine to what has happened in a server while the bot was away: its threads first, then messages. Throws if
 * Discord fails; both may be repeated.
 */
export async function catchUpThreads(
  guild: Guild,
  { place, log, reopen, since }: CatchUpOptions,
): Promise<void> {
  const { threads } = place
  const own = (await threads.list()).filter(({ guildId, state }) => guildId === guild.id && state !== 'ended')
  if (own.length === 0) return
  const active = await guild.channels.fetchActiveThreads(false)
  for (const thread of own) {
    try {
      if (active.threads.has(thread.threadId)) {
        if (thread.state === 'archived') await threads.unarchived(thread.threadId)
        continue
      }
      const channel = await place.messages.channel(thread.threadId)
      if (channel?.thread_metadata?.archived) {
        if (thread.state !== 'archived') await threads.archived(thread.threadId)
      } else if (!channel && !(isNew(thread, since) && (await reopen(thread))))
        await threads.deleted(thread.threadId)
    } catch (error) {
      if (isOutage(error)) throw error
      log({ level: 'warning', text: `thread ${thread.threadId}: ${reasonOf(error)}` })
    }
  }
}

export async function catchUpMessages(guild: Guild, options: CatchUpOptions): Promise<void> {
  const { since, place, log } = options
  if (since === undefined) return
  const from = Math.max(since - overlapMs, Date.now() - mostAwayMs)
  const after = SnowflakeUtil.generate({ timestamp: BigInt(Math.floor(from)) }).toString()
  const known = new Set((await place.threads.list()).map(({ threadId }) => threadId))
  const { threads } = await guild.channels.fetchActiveThreads(false)
  const places = [
    ...[...threads.values()].filter(({ id }) => known.has(id)),
    // Requests of `sandkasten send`.
    ...[...guild.channels.cache.values()].filter((channel) => channel.isTextBased() && !channel.isThread()),
  ]
  for (const channel of places) {
    const { lastMessageId } = channel as { lastMessageId?: string | null }
    if (!lastMessageId || BigInt(lastMessageId) < BigInt(after)) continue
    if (
      guild.members.me &&
      !channel.permissionsFor(guild.members.me)?.has(PermissionFlagsBits.ReadMessageHistory)
    )
      continue
    const parentId = channel.isThread() ? (channel.parentId ?? undefined) : undefined
    try {
      await eachMissed(channel.id, after, options, (message) =>
        options.handle(missedOf(message, guild, parentId)),
      )
    } catch (error) {
      if (isOutage(error)) throw error
      log({ level: 'warning', text: `channel ${channel.id}: ${reasonOf(error)}` })
    }
  }
}

async function eachMissed(
  channelId: string,
  after: string,
  { place }: CatchUpOptions,
  handle: (message: RawMessage) => Promise<void>,
): Promise<void> {
  let last = after
  for (let page = 0; page < mostPages; page += 1) {
    const messages = await place.messages.after(channelId, last)
    for (const message of messages) await handle(message)
    if (messages.length < 100) return
    last = messages.at(-1)!.id
  }
}

/** Whether the bot may have ended before it opened the thread. */
function isNew({ threadId, state }: Thread, since: number | undefined): boolean {
  return state === 'pending' || SnowflakeUtil.timestampFrom(threadId) > (since ?? 0) - overlapMs
}
