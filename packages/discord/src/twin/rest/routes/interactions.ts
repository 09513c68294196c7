import type { Core } from '../../core.ts'
import { DiscordError } from '../../errors.ts'
import {
  CallbackType,
  findByToken,
  InteractionType,
  isExpired,
  isUnanswered,
} from '../../state/interactions.ts'
import { messagePayload } from '../../state/message-payload.ts'
import { createMessage, deleteMessage, editMessage, MessageFlag } from '../../state/messages.ts'
import type { ChannelRecord, InteractionRecord, MessageRecord } from '../../state/world.ts'
import { type Body, Form } from '../form.ts'
import { parseMessage } from '../message-form.ts'
import { parseModal } from '../modal-form.ts'
import { type Call, publicRoute, type Route } from '../route.ts'

const WEBHOOK = '/webhooks/:application/:token'

export const interactionRoutes: Route[] = [
  publicRoute('POST /interactions/:interaction/:token/callback', (call) => {
    const { core, params, body, query } = call
    const interaction = core.world.interactions.get(params.interaction!)
    if (!interaction || interaction.token !== params.token) throw new DiscordError('unknownInteraction')
    if (interaction.callbackType !== undefined) throw new DiscordError('alreadyAcknowledged')
    if (isUnanswered(core, interaction)) throw new DiscordError('unknownInteraction')
    const form = new Form()
    const type = form.choice(['type'], body.type, allowedCallbacks(interaction))
    if (body.type === undefined) form.required(['type'])
    const data = form.object(['data'], body.data) ?? {}
    form.throwIfAny()
    const message = answer(call, interaction, type!, data)
    interaction.callbackType = type
    core.changes.emit('change', interaction.channelId)
    return query.get('with_response') === 'true'
      ? callbackPayload(core, interaction, type!, message)
      : undefined
  }),
  publicRoute(`POST ${WEBHOOK}`, (call) => {
    const { core } = call
    const interaction = interactionOf(call)
    if (interaction.callbackType === undefined) throw new DiscordError('unknownWebhook')
    const original = originalOf(core, interaction)
    const input = parseMessage(core, call.body, call.files)
    // The first follow-up replaces a deferred reply.
    if (original && original.flags & MessageFlag.loading) {
      editMessage(core, original, input)
      return messagePayload(core, original)
    }
    return messagePayload(core, createReply(core, interaction, input))
  }),
  publicRoute(`GET ${WEBHOOK}/messages/:message`, (call) =>
    messagePayload(call.core, messageOf(call, interactionOf(call))),
  ),
  publicRoute(`PATCH ${WEBHOOK}/messages/:message`, (call) => {
    const { core } = call
    const message = messageOf(call, interactionOf(call))
    const channel = core.world.channels.get(message.channelId)
    if (channel?.thread?.isArchived) throw new DiscordError('threadIsArchived')
    editMessage(core, message, parseMessage(core, call.body, call.files, message))
    return messagePayload(core, message)
  }),
  publicRoute(`DELETE ${WEBHOOK}/messages/:message`, (call) => {
    deleteMessage(call.core, messageOf(call, interactionOf(call)))
    return undefined
  }),
]

function allowedCallbacks({ type, sourceMessageId }: InteractionRecord): number[] {
  const { message, deferredMessage, deferredUpdate, update, autocomplete, modal } = CallbackType
  if (type === InteractionType.autocomplete) return [autocomplete]
  if (type === InteractionType.command) return [message, deferredMessage, modal]
  if (type === InteractionType.component) return [message, deferredMessage, deferredUpdate, update, modal]
  return sourceMessageId ? [message, deferredMessage, deferredUpdate, update] : [message, deferredMessage]
}

/** Does what the callback says, and returns the message that it made or changed. */
function answer(
  call: Call,
  interaction: InteractionRecord,
  type: number,
  data: Body,
): MessageRecord | undefined {
  const { core, files } = call
  switch (type) {
    case CallbackType.message: {
      const message = createReply(core, interaction, parseMessage(core, data, files, undefined, ['data']))
      interaction.originalMessageId = message.id
      return message
    }
    case CallbackType.deferredMessage: {
      const flags =
        (typeof data.flags === 'number' ? data.flags & MessageFlag.ephemeral : 0) | MessageFlag.loading
      const message = createReply(core, interaction, { flags })
      interaction.originalMessageId = message.id
      return message
    }
    case CallbackType.deferredUpdate:
      interaction.originalMessageId = interaction.sourceMessageId
      return undefined
    case CallbackType.update: {
      interaction.originalMessageId = interaction.sourceMessageId
      const message = originalOf(core, interaction)
      if (!message) throw new DiscordError('unknownMessage')
      editMessage(core, message, parseMessage(core, data, files, message, ['data']))
      return message
    }
    case CallbackType.autocomplete:
      interaction.choices = parseChoices(data)
      return undefined
    default:
      interaction.modal = parseModal(data)
      return undefined
  }
}

function parseChoices(data: Body): NonNullable<InteractionRecord['choices']> {
  const form = new Form()
  const choices = form.list(['data', 'choices'], data.choices) ?? []
  form.length(['data', 'choices'], choices, 0, 25)
  for (const [index, { name, value }] of choices.entries()) {
    const path = ['data', 'choices', index]
    form.text([...path, 'name'], name, { min: 1, max: 100, required: true })
    if (value === undefined) form.required([...path, 'value'])
    else if (typeof value === 'string') form.length([...path, 'value'], value, 1, 100)
    else if (typeof value !== 'number') form.text([...path, 'value'], value)
  }
  form.throwIfAny()
  return choices as unknown as NonNullable<InteractionRecord['choices']>
}

function createReply(
  core: Core,
  interaction: InteractionRecord,
  input: Partial<ReturnType<typeof parseMessage>>,
): MessageRecord {
  const channel = core.world.channels.get(interaction.channelId)
  if (!channel) throw new DiscordError('unknownChannel')
  const isEphemeral = Boolean((input.flags ?? 0) & MessageFlag.ephemeral)
  return createMessage(core, channel, {
    ...input,
    authorId: interaction.botId,
    type: interaction.type === InteractionType.command ? 20 : replyType(interaction),
    interactionId: interaction.id,
    visibleTo: isEphemeral ? interaction.userId : undefined,
    ...(interaction.sourceMessageId && {
      reference: { channelId: channel.id, messageId: interaction.sourceMessageId },
    }),
  })
}

/** Answers to components reply to the message of the component. */
function replyType({ sourceMessageId }: InteractionRecord): number {
  return sourceMessageId ? 19 : 0
}

/** The interaction behind a webhook's path, while its token is valid. */
function interactionOf({ core, params }: Call): InteractionRecord {
  const interaction = findByToken(core, params.token!)
  if (!interaction || interaction.botId !== params.application) throw new DiscordError('unknownWebhook')
  if (isExpired(core, interaction)) throw new DiscordError('invalidWebhookToken')
  return interaction
}

function messageOf({ core, params }: Call, interaction: InteractionRecord): MessageRecord {
  const channel = core.world.channels.get(interaction.channelId)
  if (!channel) throw new DiscordError('unknownChannel')
  const id = params.message === '@original' ? interaction.originalMessageId : params.message
  const message = id === undefined ? undefined : channel.messages.get(id)
  const isOwn = message?.interactionId === interaction.id || message?.id === interaction.sourceMessageId
  if (!message || !isOwn) throw new DiscordError('unknownMessage')
  return message
}

function originalOf(core: Core, interaction: InteractionRecord): MessageRecord | undefined {
  const channel: ChannelRecord | undefined = core.world.channels.get(interaction.channelId)
  return interaction.originalMessageId ? channel?.messages.get(interaction.originalMessageId) : undefined
}

function callbackPayload(
  core: Core,
  interaction: InteractionRecord,
  type: number,
  message?: MessageRecord,
): object {
  return {
    interaction: {
      id: interaction.id,
      type: interaction.type,
      ...(message && {
        response_message_id: message.id,
        response_message_loading: Boolean(message.flags & MessageFlag.loading),
        response_message_ephemeral: Boolean(message.flags & MessageFlag.ephemeral),
      }),
    },
    resource: { type, ...(message && { message: messagePayload(core, message) }) },
  }
}
