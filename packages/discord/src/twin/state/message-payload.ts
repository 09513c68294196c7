import type { Core } from '../core.ts'
import { bareMemberPayload, channelPayload, time, userPayload } from './payloads.ts'
import type { AttachmentRecord, MessageRecord } from './world.ts'

/** Discord's JSON of a message. `forUserId` decides whether reactions are `me`. */
export function messagePayload(core: Core, message: MessageRecord, forUserId?: string): object {
  const { world } = core
  const interaction = message.interactionId ? world.interactions.get(message.interactionId) : undefined
  const thread = message.threadId ? world.channels.get(message.threadId) : undefined
  const { reference } = message
  const referenced =
    reference?.messageId && world.channels.get(reference.channelId)?.messages.get(reference.messageId)
  return {
    id: message.id,
    channel_id: message.channelId,
    author: userPayload(world.users.get(message.authorId)!),
    content: message.content,
    timestamp: time(message.createdAt),
    edited_timestamp: message.editedAt === undefined ? null : time(message.editedAt),
    tts: false,
    mention_everyone: message.mentions.everyone,
    mentions: message.mentions.userIds.map((id) => userPayload(world.users.get(id)!)),
    mention_roles: [...message.mentions.roleIds],
    attachments: message.attachments.map(attachmentPayload),
    embeds: message.embeds,
    components: message.components,
    pinned: message.isPinned,
    type: message.type,
    flags: message.flags | (thread ? 32 : 0),
    ...(message.nonce !== undefined && { nonce: message.nonce }),
    ...(message.reactions.size > 0 && { reactions: reactionsPayload(message, forUserId) }),
    ...(thread && { thread: channelPayload(thread) }),
    ...(reference && {
      message_reference: {
        type: 0,
        channel_id: reference.channelId,
        guild_id: world.channels.get(message.channelId)?.guildId,
        ...(reference.messageId && { message_id: reference.messageId }),
      },
      ...(reference.messageId && {
        referenced_message: referenced ? messagePayload(core, { ...referenced, reference: undefined }) : null,
      }),
    }),
    ...(interaction && {
      webhook_id: interaction.botId,
      application_id: interaction.botId,
      interaction_metadata: {
        id: interaction.id,
        type: interaction.type,
        user: userPayload(world.users.get(interaction.userId)!),
        authorizing_integration_owners: { 0: interaction.guildId },
        ...(interaction.commandName && { name: interaction.commandName }),
        ...(interaction.originalMessageId &&
          interaction.originalMessageId !== message.id && {
            original_response_message_id: interaction.originalMessageId,
          }),
      },
      ...(interaction.type === 2 && {
        interaction: {
          id: interaction.id,
          type: 2,
          name: interaction.commandName,
          user: userPayload(world.users.get(interaction.userId)!),
        },
      }),
    }),
  }
}

/** A message in an event of the gateway: with its guild and the author's membership. */
export function messageEventPayload(
  core: Core,
  message: MessageRecord,
  viewer: { botId: string; seesContent: boolean },
) {
  const channel = core.world.channels.get(message.channelId)!
  const guild = core.world.guilds.get(channel.guildId)!
  const isReadable =
    viewer.seesContent ||
    message.authorId === viewer.botId ||
    message.mentions.userIds.includes(viewer.botId) ||
    message.mentions.everyone
  const member = bareMemberPayload(guild, message.authorId)
  return {
    ...messagePayload(core, message, viewer.botId),
    ...(!isReadable && { content: '', embeds: [], attachments: [], components: [] }),
    guild_id: guild.id,
    channel_type: channel.type,
    ...(member && !message.interactionId && { member }),
  }
}

export function attachmentPayload(attachment: AttachmentRecord) {
  return {
    id: attachment.id,
    filename: attachment.filename,
    size: attachment.size,
    url: attachment.url,
    proxy_url: attachment.url,
    content_type: attachment.contentType,
    ...(attachment.description !== undefined && { description: attachment.description }),
    ...(attachment.ephemeral && { ephemeral: true }),
  }
}

function reactionsPayload(message: MessageRecord, userId: string | undefined) {
  return [...message.reactions.values()].map(({ emoji, userIds }) => ({
    emoji,
    count: userIds.size,
    count_details: { normal: userIds.size, burst: 0 },
    burst_colors: [],
    me: userId !== undefined && userIds.has(userId),
    me_burst: false,
    burst_me: false,
  }))
}
