import { DiscordError } from '../../errors.ts'
import { visibleMessage } from '../../state/messages.ts'
import { memberPayload, threadMemberPayload, threadPayloadFor } from '../../state/payloads.ts'
import { channelPermissions } from '../../state/permissions.ts'
import { addThreadMember, createThread, removeThreadMember, ThreadType } from '../../state/threads.ts'
import type { ChannelRecord } from '../../state/world.ts'
import { Form } from '../form.ts'
import { type BotCall, Created, channelOf, type Route, route } from '../route.ts'

export const threadRoutes: Route[] = [
  route('POST /channels/:channel/threads', (call) => {
    const parent = parentOf(call)
    const form = new Form()
    const type = form.choice(['type'], call.body.type ?? ThreadType.private, [
      ThreadType.public,
      ThreadType.private,
    ])
    form.throwIfAny()
    channelOf(call, type === ThreadType.private ? 'CreatePrivateThreads' : 'CreatePublicThreads')
    return create(call, parent, type!)
  }),
  route('POST /channels/:channel/messages/:message/threads', (call) => {
    const parent = parentOf(call)
    channelOf(call, 'CreatePublicThreads', 'ReadMessageHistory')
    return create(call, parent, ThreadType.public, call.params.message)
  }),
  route('GET /channels/:channel/threads/archived/public', (call) => {
    const parent = channelOf(call, 'ReadMessageHistory')
    const threads = [...call.core.world.channels.values()]
      .filter(
        ({ parentId, type, thread }) =>
          parentId === parent.id && type === ThreadType.public && thread?.isArchived,
      )
      .sort((a, b) => b.thread!.archivedAt - a.thread!.archivedAt)
    const limit = Math.min(Number(call.query.get('limit') ?? 50), 100)
    return {
      threads: threads.slice(0, limit).map((thread) => threadPayloadFor(thread, call.bot.id)),
      members: threads.slice(0, limit).flatMap((thread) => threadMemberPayload(thread, call.bot.id) ?? []),
      has_more: threads.length > limit,
    }
  }),
  route('GET /channels/:channel/thread-members', (call) => {
    const channel = threadOf(call)
    return [...channel.thread!.members.keys()].map((id) => threadMemberPayload(channel, id))
  }),
  route('GET /channels/:channel/thread-members/:user', (call) => {
    const channel = threadOf(call)
    const member = threadMemberPayload(channel, userOf(call))
    if (!member) throw new DiscordError('unknownMember')
    const guild = call.core.world.guilds.get(channel.guildId)!
    return { ...member, member: memberPayload(call.core.world, guild, userOf(call)) }
  }),
  route('PUT /channels/:channel/thread-members/:user', (call) => {
    const channel = threadOf(call)
    const userId = userOf(call)
    if (!call.core.world.users.has(userId)) throw new DiscordError('unknownUser')
    const parent = call.core.world.channels.get(channel.parentId!)!
    if (channelPermissions(call.core.world, parent, userId) === 0n) throw new DiscordError('missingAccess')
    if (channel.thread!.isArchived) throw new DiscordError('threadIsArchived')
    if (userId !== call.bot.id) channelOf(call, 'SendMessagesInThreads')
    addThreadMember(call.core, channel, userId)
    return undefined
  }),
  route('DELETE /channels/:channel/thread-members/:user', (call) => {
    const channel = threadOf(call)
    const userId = userOf(call)
    if (channel.thread!.isArchived) throw new DiscordError('threadIsArchived')
    if (userId !== call.bot.id) channelOf(call, 'ManageThreads')
    removeThreadMember(call.core, channel, userId)
    return undefined
  }),
]

function parentOf(call: BotCall): ChannelRecord {
  const parent = channelOf(call)
  if (parent.type !== 0 && parent.type !== 5) throw new DiscordError('wrongChannelType')
  return parent
}

function threadOf(call: BotCall): ChannelRecord {
  const channel = channelOf(call)
  if (!channel.thread) throw new DiscordError('wrongChannelType')
  return channel
}

function userOf({ bot, params }: BotCall): string {
  return params.user === '@me' ? bot.id : params.user!
}

function create(
  { core, bot, body }: BotCall,
  parent: ChannelRecord,
  type: number,
  messageId?: string,
): Created {
  const form = new Form()
  const name = form.text(['name'], body.name, { min: 1, max: 100, required: true })
  const minutes = form.choice(
    ['auto_archive_duration'],
    body.auto_archive_duration ?? undefined,
    [60, 1440, 4320, 10_080],
  )
  form.throwIfAny()
  const thread = createThread(core, parent, bot.id, {
    name: name!,
    type,
    autoArchiveMinutes: minutes,
    isInvitable: body.invitable !== false,
    starter: messageId === undefined ? undefined : visibleMessage(parent, messageId),
  })
  return new Created(threadPayloadFor(thread, bot.id))
}
