import { type Core, Intent } from '../core.ts'
import { DiscordError } from '../errors.ts'
import { storeFile, type Upload } from './files.ts'
import { resolveMentions } from './mentions.ts'
import { messageEventPayload } from './message-payload.ts'
import { touchThread } from './threads.ts'
import type { AttachmentRecord, ChannelRecord, Component, Embed, MessageRecord } from './world.ts'

export const MessageFlag = {
  suppressEmbeds: 1 << 2,
  ephemeral: 1 << 6,
  loading: 1 << 7,
  suppressNotifications: 1 << 12,
  componentsV2: 1 << 15,
} as const

/** What a message says. In an edit, an absent field stays as it is. */
export interface MessageContent {
  readonly content?: string
  readonly embeds?: Embed[]
  readonly components?: Component[]
  readonly files?: readonly Upload[]
  /** Ids of attachments that an edit keeps. */
  readonly keepAttachments?: readonly string[]
  readonly flags?: number
  readonly allowedMentions?: AllowedMentions
}

export interface AllowedMentions {
  readonly parse?: readonly string[]
  readonly users?: readonly string[]
  readonly roles?: readonly string[]
  readonly replied_user?: boolean
}

export interface NewMessage extends MessageContent {
  readonly authorId: string
  readonly type?: number
  readonly nonce?: string | number
  readonly enforceNonce?: boolean
  readonly reference?: MessageRecord['reference']
  readonly interactionId?: string
  readonly visibleTo?: string
}

export function createMessage(core: Core, channel: ChannelRecord, input: NewMessage): MessageRecord {
  const { world, clock } = core
  const nonceKey = input.nonce === undefined ? undefined : `${input.authorId} ${input.nonce}`
  const first = nonceKey && input.enforceNonce ? findByNonce(core, nonceKey) : undefined
  if (first) {
    core.counters.record.repeatedNonce()
    return first
  }
  if (channel.thread) touchThread(core, channel)
  const message: MessageRecord = {
    id: core.newId(),
    channelId: channel.id,
    authorId: input.authorId,
    type: input.type ?? 0,
    createdAt: clock.now(),
    content: input.content?.trim() ?? '',
    embeds: withTypes(input.embeds ?? []),
    components: withIds(input.components ?? []),
    attachments: storeFiles(core, channel.id, input),
    flags: input.flags ?? 0,
    mentions: resolveMentions(core, channel, input),
    nonce: input.nonce,
    reactions: new Map(),
    reference: input.reference,
    interactionId: input.interactionId,
    visibleTo: input.visibleTo,
    isPinned: false,
  }
  channel.messages.set(message.id, message)
  if (nonceKey) {
    world.nonces.set(nonceKey, { messageId: message.id, channelId: channel.id, createdAt: clock.now() })
  }
  core.counters.record.message(channel.id)
  if (!message.visibleTo) {
    channel.lastMessageId = message.id
    if (channel.thread) {
      channel.thread.messageCount++
      channel.thread.totalMessageSent++
    }
    publishMessage(core, 'MESSAGE_CREATE', message)
  }
  core.changes.emit('change', channel.id)
  return message
}

export function editMessage(core: Core, message: MessageRecord, input: MessageContent): void {
  const channel = core.world.channels.get(message.channelId)!
  if (input.content !== undefined) {
    message.content = input.content.trim()
    message.mentions = resolveMentions(core, channel, { ...input, authorId: message.authorId })
  }
  if (input.embeds) message.embeds = withTypes(input.embeds)
  if (input.components) message.components = withIds(input.components)
  if (input.keepAttachments) {
    const kept = new Set(input.keepAttachments)
    message.attachments = message.attachments.filter(({ id }) => kept.has(id))
  }
  const isPrivate = message.visibleTo !== undefined
  message.attachments.push(
    ...storeFiles(core, channel.id, { ...input, visibleTo: isPrivate ? '1' : undefined }),
  )
  if (input.flags !== undefined) {
    const settable = MessageFlag.suppressEmbeds | MessageFlag.componentsV2
    message.flags =
      (message.flags & ~settable) | (input.flags & settable) | (message.flags & MessageFlag.componentsV2)
  }
  // Filling in a deferred reply is not an edit.
  const wasLoading = Boolean(message.flags & MessageFlag.loading)
  message.flags &= ~MessageFlag.loading
  if (!wasLoading) message.editedAt = core.clock.now()
  core.counters.record.edit(channel.id)
  publishUpdate(core, message)
}

/** Tells everybody that a message changed, for whatever reason. */
export function publishUpdate(core: Core, message: MessageRecord): void {
  if (!message.visibleTo) publishMessage(core, 'MESSAGE_UPDATE', message)
  core.changes.emit('change', message.channelId)
}

export function deleteMessage(core: Core, message: MessageRecord): void {
  const channel = core.world.channels.get(message.channelId)!
  channel.messages.delete(message.id)
  for (const { id } of message.attachments) core.world.files.delete(id)
  if (!message.visibleTo) {
    if (channel.thread) channel.thread.messageCount--
    const data = { id: message.id, channel_id: channel.id, guild_id: channel.guildId }
    core.publish({
      name: 'MESSAGE_DELETE',
      guildId: channel.guildId,
      channelId: channel.id,
      intent: Intent.guildMessages,
      data: () => data,
    })
  }
  core.changes.emit('change', channel.id)
}

/** The message, if `userId` may read it; otherwise Discord's error. */
export function visibleMessage(channel: ChannelRecord, id: string): MessageRecord {
  const message = channel.messages.get(id)
  if (!message || message.visibleTo) throw new DiscordError('unknownMessage')
  return message
}

function findByNonce(core: Core, key: string): MessageRecord | undefined {
  const entry = core.world.nonces.get(key)
  if (!entry) return undefined
  if (core.clock.now() - entry.createdAt > core.limits.nonceMs) {
    core.world.nonces.delete(key)
    return undefined
  }
  return core.world.channels.get(entry.channelId)?.messages.get(entry.messageId)
}

function publishMessage(core: Core, name: string, message: MessageRecord): void {
  const channel = core.world.channels.get(message.channelId)!
  const payloads = new Map<string, object>()
  core.publish({
    name,
    guildId: channel.guildId,
    channelId: channel.id,
    intent: Intent.guildMessages,
    data: ({ botId, intents }) => {
      const seesContent = Boolean(intents & Intent.messageContent)
      const key = `${botId} ${seesContent}`
      const payload = payloads.get(key) ?? messageEventPayload(core, message, { botId, seesContent })
      payloads.set(key, payload)
      return payload
    },
  })
}

function storeFiles(
  core: Core,
  channelId: string,
  { files = [], visibleTo }: { files?: readonly Upload[]; visibleTo?: string },
): AttachmentRecord[] {
  return files.map((file) => storeFile(core, channelId, file, visibleTo !== undefined))
}

function withTypes(embeds: Embed[]): Embed[] {
  return embeds.map((embed) => ({ type: 'rich', ...embed }))
}

/** Discord numbers the components of a message in their order. */
function withIds(components: readonly Component[]): Component[] {
  let next = 1
  const visit = (component: Component): Component => ({
    ...component,
    id: component.id || next++,
    ...(component.components && { components: component.components.map(visit) }),
    ...(component.accessory && { accessory: visit(component.accessory) }),
  })
  return components.map(visit)
}
