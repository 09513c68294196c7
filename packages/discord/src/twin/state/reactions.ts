import { type Core, Intent } from '../core.ts'
import { DiscordError } from '../errors.ts'
import { memberPayload } from './payloads.ts'
import type { Emoji, MessageRecord } from './world.ts'

/** Reads an emoji as it appears in a path: a character, or `name:id`. */
export function parseEmoji(text: string): Emoji {
  const custom = /^(?:a:)?(\w+):(\d+)$/.exec(text)
  if (custom) return { id: custom[2]!, name: custom[1]! }
  if (!/^\p{Extended_Pictographic}|^\p{Regional_Indicator}|^[\d#*]\uFE0F?\u20E3/u.test(text)) {
    throw new DiscordError('unknownEmoji')
  }
  return { id: null, name: text }
}

export function addReaction(core: Core, message: MessageRecord, userId: string, emoji: Emoji): void {
  const key = emoji.id ?? emoji.name
  const entry = message.reactions.get(key) ?? { emoji, userIds: new Set<string>() }
  if (entry.userIds.has(userId)) return
  entry.userIds.add(userId)
  message.reactions.set(key, entry)
  publishReaction(core, 'MESSAGE_REACTION_ADD', message, userId, emoji)
}

export function removeReaction(core: Core, message: MessageRecord, userId: string, emoji: Emoji): void {
  const key = emoji.id ?? emoji.name
  const entry = message.reactions.get(key)
  if (!entry?.userIds.delete(userId)) return
  if (entry.userIds.size === 0) message.reactions.delete(key)
  publishReaction(core, 'MESSAGE_REACTION_REMOVE', message, userId, emoji)
}

function publishReaction(
  core: Core,
  name: string,
  message: MessageRecord,
  userId: string,
  emoji: Emoji,
): void {
  const { guildId } = core.world.channels.get(message.channelId)!
  const isAdd = name === 'MESSAGE_REACTION_ADD'
  const data = {
    user_id: userId,
    channel_id: message.channelId,
    message_id: message.id,
    guild_id: guildId,
    emoji: { ...emoji, animated: false },
    burst: false,
    type: 0,
    ...(isAdd && {
      member: memberPayload(core.world, core.world.guilds.get(guildId)!, userId),
      message_author_id: message.authorId,
    }),
  }
  core.publish({
    name,
    guildId,
    channelId: message.channelId,
    intent: Intent.guildMessageReactions,
    data: () => data,
  })
  core.changes.emit('change', message.channelId)
}
