import type { Core } from '../core.ts'
import type { AllowedMentions } from './messages.ts'
import { may } from './permissions.ts'
import type { ChannelRecord, Mentions } from './world.ts'

/** Whom a message pings: what its text mentions, as far as `allowed_mentions` and permissions let it. */
export function resolveMentions(
  core: Core,
  channel: ChannelRecord,
  input: {
    content?: string
    allowedMentions?: AllowedMentions
    authorId: string
    reference?: { channelId: string; messageId?: string }
  },
): Mentions {
  const { world } = core
  const { content = '', allowedMentions: allowed, authorId, reference } = input
  const guild = world.guilds.get(channel.guildId)!
  const isParsed = (kind: string) => !allowed || (allowed.parse ?? []).includes(kind)
  const ids = (pattern: RegExp) => [...new Set([...content.matchAll(pattern)].map((match) => match[1]!))]

  const users = ids(/<@!?(\d+)>/g).filter(
    (id) => world.users.has(id) && (isParsed('users') || allowed?.users?.includes(id)),
  )
  const roles = ids(/<@&(\d+)>/g).filter(
    (id) => guild.roles.has(id) && (isParsed('roles') || allowed?.roles?.includes(id)),
  )
  const original =
    reference?.messageId && world.channels.get(reference.channelId)?.messages.get(reference.messageId)
  const pingsAuthor = allowed ? allowed.replied_user === true : true
  if (original && pingsAuthor && !users.includes(original.authorId)) users.push(original.authorId)
  const everyone =
    /@(everyone|here)\b/.test(content) &&
    isParsed('everyone') &&
    may(world, channel, authorId, 'MentionEveryone')
  return { userIds: users, roleIds: roles, everyone }
}
