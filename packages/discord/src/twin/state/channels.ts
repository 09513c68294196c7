import { type Core, Intent } from '../core.ts'
import { channelPayload, threadPayloadFor } from './payloads.ts'
import { channelPermissions } from './permissions.ts'
import type { ChannelRecord, Overwrite } from './world.ts'

export interface NewChannel {
  readonly name: string
  readonly type?: number
  readonly topic?: string | null
  readonly parentId?: string | null
  readonly overwrites?: Overwrite[]
}

export function createChannel(core: Core, guildId: string, input: NewChannel): ChannelRecord {
  const position = [...core.world.channels.values()].filter((channel) => channel.guildId === guildId).length
  const channel: ChannelRecord = {
    id: core.newId(),
    guildId,
    type: input.type ?? 0,
    name: input.name,
    topic: input.topic ?? null,
    position,
    parentId: input.parentId ?? null,
    overwrites: input.overwrites ?? [],
    rateLimitPerUser: 0,
    lastMessageId: null,
    messages: new Map(),
  }
  core.world.channels.set(channel.id, channel)
  publishChannel(core, 'CHANNEL_CREATE', channel)
  return channel
}

export interface ChannelChange {
  readonly name?: string
  readonly topic?: string | null
  readonly parentId?: string | null
  readonly rateLimitPerUser?: number
  readonly overwrites?: Overwrite[]
}

export function changeChannel(core: Core, channel: ChannelRecord, change: ChannelChange): void {
  const bots = [...core.world.bots.keys()]
  const couldSee = new Set(bots.filter((id) => channelPermissions(core.world, channel, id) !== 0n))
  if (change.name !== undefined) channel.name = change.name
  if (change.topic !== undefined) channel.topic = change.topic
  if (change.parentId !== undefined) channel.parentId = change.parentId
  if (change.rateLimitPerUser !== undefined) channel.rateLimitPerUser = change.rateLimitPerUser
  if (change.overwrites) channel.overwrites.splice(0, channel.overwrites.length, ...change.overwrites)
  publishChannel(core, 'CHANNEL_UPDATE', channel)
  for (const botId of bots) {
    if (!couldSee.has(botId) && channelPermissions(core.world, channel, botId) !== 0n)
      syncThreads(core, channel, botId)
  }
}

/** Deletes a channel with its threads, or one thread. */
export function deleteChannel(core: Core, channel: ChannelRecord): void {
  const { world } = core
  const { id, guildId, parentId, type } = channel
  if (channel.thread) {
    const data = { id, guild_id: guildId, parent_id: parentId, type }
    core.publish({ name: 'THREAD_DELETE', guildId, channelId: id, intent: Intent.guilds, data: () => data })
  } else {
    publishChannel(core, 'CHANNEL_DELETE', channel)
    for (const other of [...world.channels.values()]) {
      if (other.thread && other.parentId === id) remove(core, other)
    }
  }
  remove(core, channel)
  core.changes.emit('change', channel.id)
}

function remove(core: Core, channel: ChannelRecord): void {
  core.world.channels.delete(channel.id)
  for (const message of channel.messages.values()) {
    for (const file of message.attachments) core.world.files.delete(file.id)
  }
}

/** A bot that begins to see a channel learns of its active threads. */
function syncThreads(core: Core, channel: ChannelRecord, botId: string): void {
  const threads = [...core.world.channels.values()].filter(
    ({ thread, parentId }) => thread && !thread.isArchived && parentId === channel.id,
  )
  core.publish({
    name: 'THREAD_LIST_SYNC',
    guildId: channel.guildId,
    channelId: channel.id,
    intent: Intent.guilds,
    botId,
    data: () => {
      const payloads = threads.map((thread) => threadPayloadFor(thread, botId))
      const members = payloads.flatMap((payload) => ('member' in payload ? [payload.member] : []))
      return { guild_id: channel.guildId, channel_ids: [channel.id], threads: payloads, members }
    },
  })
}

function publishChannel(core: Core, name: string, channel: ChannelRecord): void {
  const data = channelPayload(channel)
  core.publish({ name, guildId: channel.guildId, intent: Intent.guilds, data: () => data })
  core.changes.emit('change', channel.id)
}
