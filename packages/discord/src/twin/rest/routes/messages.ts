import { DiscordError } from '../../errors.ts'
import { compareIds } from '../../state/ids.ts'
import { messagePayload } from '../../state/message-payload.ts'
import {
  createMessage,
  deleteMessage,
  editMessage,
  MessageFlag,
  visibleMessage,
} from '../../state/messages.ts'
import { userPayload } from '../../state/payloads.ts'
import { may, sendPermission } from '../../state/permissions.ts'
import { addReaction, parseEmoji, removeReaction } from '../../state/reactions.ts'
import type { ChannelRecord, MessageRecord } from '../../state/world.ts'
import { Form } from '../form.ts'
import { parseMessage } from '../message-form.ts'
import { type BotCall, channelOf, type Route, requirePermissions, route } from '../route.ts'

const PATH = '/channels/:channel/messages'
const REACTION = `${PATH}/:message/reactions/:emoji`

export const messageRoutes: Route[] = [
  route(`POST ${PATH}`, (call) => {
    const { core, bot } = call
    const channel = channelOf(call)
    if (channel.type === 4) throw new DiscordError('wrongChannelType')
    requirePermissions(core, channel, bot.id, sendPermission(channel))
    const { replyTo, ...input } = parseMessage(core, call.body, call.files)
    if (input.files?.length) requirePermissions(core, channel, bot.id, 'AttachFiles')
    const flags = (input.flags ?? 0) & ~MessageFlag.ephemeral
    if (channel.thread?.isLocked && channel.thread.isArchived)
      requirePermissions(core, channel, bot.id, 'ManageThreads')
    const embeds = may(core.world, channel, bot.id, 'EmbedLinks') ? input.embeds : []
    const isReply = replyTo && channel.messages.has(replyTo.messageId)
    if (replyTo && !isReply && !replyTo.mayBeMissing) throw unknownReference()
    if (isReply) requirePermissions(core, channel, bot.id, 'ReadMessageHistory')
    const message = createMessage(core, channel, {
      ...input,
      flags,
      embeds,
      authorId: bot.id,
      ...(isReply && { type: 19, reference: { channelId: channel.id, messageId: replyTo.messageId } }),
    })
    return messagePayload(core, message, bot.id)
  }),
  route(`GET ${PATH}`, (call) => {
    const channel = channelOf(call)
    if (!may(call.core.world, channel, call.bot.id, 'ReadMessageHistory')) return []
    return page(call, channel).map((message) => messagePayload(call.core, message, call.bot.id))
  }),
  route(`POST ${PATH}/bulk-delete`, (call) => {
    const channel = channelOf(call, 'ManageMessages')
    const ids = Array.isArray(call.body.messages) ? call.body.messages.map(String) : []
    const form = new Form()
    form.length(['messages'], ids, 2, 100)
    form.throwIfAny()
    for (const id of ids) {
      const message = channel.messages.get(id)
      if (message) deleteMessage(call.core, message)
    }
    return undefined
  }),
  route(`GET ${PATH}/:message`, (call) => {
    const channel = channelOf(call, 'ReadMessageHistory')
    return messagePayload(call.core, messageOf(call, channel), call.bot.id)
  }),
  route(`PATCH ${PATH}/:message`, (call) => {
    const { core, bot } = call
    const channel = channelOf(call)
    const message = messageOf(call, channel)
    if (message.authorId !== bot.id) throw new DiscordError('editOfOthersMessage')
    if (channel.thread?.isArchived) throw new DiscordError('threadIsArchived')
    const input = parseMessage(core, call.body, call.files, message)
    if (input.files?.length) requirePermissions(core, channel, bot.id, 'AttachFiles')
    editMessage(core, message, input)
    return messagePayload(core, message, bot.id)
  }),
  route(`DELETE ${PATH}/:message`, (call) => {
    const channel = channelOf(call)
    const message = messageOf(call, channel)
    if (message.authorId !== call.bot.id)
      requirePermissions(call.core, channel, call.bot.id, 'ManageMessages')
    if (channel.thread?.isArchived) throw new DiscordError('threadIsArchived')
    deleteMessage(call.core, message)
    return undefined
  }),
  route(`PUT ${REACTION}/@me`, (call) => {
    const channel = channelOf(call, 'ReadMessageHistory')
    const message = messageOf(call, channel)
    const emoji = parseEmoji(call.params.emoji!)
    if (channel.thread?.isArchived) throw new DiscordError('threadIsArchived')
    if (!message.reactions.has(emoji.id ?? emoji.name)) {
      requirePermissions(call.core, channel, call.bot.id, 'AddReactions')
    }
    addReaction(call.core, message, call.bot.id, emoji)
    return undefined
  }),
  route(`DELETE ${REACTION}/@me`, (call) => {
    const channel = channelOf(call)
    removeReaction(call.core, messageOf(call, channel), call.bot.id, parseEmoji(call.params.emoji!))
    return undefined
  }),
  route(`DELETE ${REACTION}/:user`, (call) => {
    const channel = channelOf(call, 'ManageMessages')
    removeReaction(call.core, messageOf(call, channel), call.params.user!, parseEmoji(call.params.emoji!))
    return undefined
  }),
  route(`GET ${REACTION}`, (call) => {
    const message = messageOf(call, channelOf(call, 'ReadMessageHistory'))
    const emoji = parseEmoji(call.params.emoji!)
    const userIds = [...(message.reactions.get(emoji.id ?? emoji.name)?.userIds ?? [])]
    return userIds.map((id) => userPayload(call.core.world.users.get(id)!))
  }),
]

function messageOf({ params }: BotCall, channel: ChannelRecord): MessageRecord {
  return visibleMessage(channel, params.message!)
}

/** One page of messages, the newest first. */
function page({ query }: BotCall, channel: ChannelRecord): MessageRecord[] {
  const limit = Number(query.get('limit') ?? 50)
  if (!Number.isInteger(limit) || limit < 1 || limit > 100) {
    const form = new Form()
    form.add(['limit'], 'NUMBER_TYPE_MAX', 'int value should be between 1 and 100.')
    form.throwIfAny()
  }
  const all = [...channel.messages.values()].filter(({ visibleTo }) => !visibleTo)
  const [before, after, around] = ['before', 'after', 'around'].map((key) => query.get(key))
  if (around) {
    const index = all.findIndex(({ id }) => compareIds(id, around) >= 0)
    const start = Math.max(0, (index === -1 ? all.length : index) - Math.floor(limit / 2))
    return all.slice(start, start + limit).reverse()
  }
  if (after)
    return all
      .filter(({ id }) => compareIds(id, after) > 0)
      .slice(0, limit)
      .reverse()
  const rest = before ? all.filter(({ id }) => compareIds(id, before) < 0) : all
  return rest.slice(-limit).reverse()
}

function unknownReference(): DiscordError {
  const error = { code: 'MESSAGE_REFERENCE_UNKNOWN_MESSAGE', message: 'Unknown message' }
  return new DiscordError('invalidForm', { message_reference: { _errors: [error] } })
}
