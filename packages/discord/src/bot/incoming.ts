import type { Member } from '@sandkasten/threads'
import { type Guild, type GuildMember, type Message, MessageType, PermissionFlagsBits } from 'discord.js'
import type { Incoming } from '../messages/incoming.ts'
import type { RawMessage } from '../rest/rest.ts'

const texts = new Set<number>([MessageType.Default, MessageType.Reply])

/** Discord’s flag of a reply that is “thinking”. */
const isLoading = 1 << 7

/** A message from the gateway. */
export function incomingOf(message: Message<true>): Incoming {
  const { channel, author } = message
  return {
    id: message.id,
    channelId: message.channelId,
    guildId: message.guildId,
    parentId: channel.isThread() ? (channel.parentId ?? undefined) : undefined,
    author: { id: author.id, name: message.member?.displayName ?? author.displayName },
    isProgram: author.bot || message.webhookId !== null,
    isText: texts.has(message.type),
    text: message.content,
    mentionsEveryone: message.mentions.everyone,
    footer: message.embeds[0]?.footer?.text,
    files: [...message.attachments.values()].map(({ name, size, url }) => ({ name, size, url })),
    member: () => memberOf(message.guild, author.id, message.member),
  }
}

/** A message that was read later. */
export function missedOf(message: RawMessage, guild: Guild, parentId: string | undefined): Incoming {
  const { author } = message
  return {
    id: message.id,
    channelId: message.channel_id,
    guildId: guild.id,
    parentId,
    author: { id: author.id, name: author.username },
    isProgram: author.bot === true || message.webhook_id !== undefined,
    isText: texts.has(message.type),
    text: message.content,
    mentionsEveryone: message.mention_everyone === true,
    pendingInteraction: (message.flags ?? 0) & isLoading ? message.interaction_metadata?.id : undefined,
    footer: message.embeds[0]?.footer?.text,
    files: message.attachments.map(({ filename, size, url }) => ({ name: filename, size, url })),
    member: () => memberOf(guild, author.id, null),
  }
}

async function memberOf(
  guild: Guild,
  userId: string,
  known: GuildMember | null,
): Promise<Member | undefined> {
  const member = known ?? (await guild.members.fetch(userId).catch(() => undefined))
  return (
    member && {
      id: userId,
      roles: [...member.roles.cache.keys()],
      canManageGuild: member.permissions.has(PermissionFlagsBits.ManageGuild),
    }
  )
}
