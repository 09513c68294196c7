import { type Core, Intent } from '../core.ts'
import { DiscordError } from '../errors.ts'
import { createMessage, publishUpdate } from './messages.ts'
import { memberPayload, threadMemberPayload, threadPayloadFor } from './payloads.ts'
import type { ChannelRecord, MessageRecord } from './world.ts'

export const ThreadType = { public: 11, private: 12 } as const

export interface NewThread {
  readonly name: string
  readonly type: number
  readonly autoArchiveMinutes?: number
  readonly isInvitable?: boolean
  readonly starter?: MessageRecord
}

export function createThread(
  core: Core,
  parent: ChannelRecord,
  ownerId: string,
  input: NewThread,
): ChannelRecord {
  const { starter } = input
  if (starter?.threadId) throw new DiscordError('threadExists')
  const now = core.clock.now()
  const thread: ChannelRecord = {
    // A thread from a message has the message's id.
    id: starter?.id ?? core.newId(),
    guildId: parent.guildId,
    type: input.type,
    name: input.name,
    topic: null,
    position: 0,
    parentId: parent.id,
    overwrites: [],
    rateLimitPerUser: 0,
    lastMessageId: null,
    messages: new Map(),
    thread: {
      ownerId,
      createdAt: now,
      starterMessageId: starter?.id,
      isArchived: false,
      isLocked: false,
      isInvitable: input.isInvitable ?? true,
      autoArchiveMinutes: input.autoArchiveMinutes ?? 1440,
      archivedAt: now,
      activeAt: now,
      messageCount: 0,
      totalMessageSent: 0,
      members: new Map([[ownerId, { joinedAt: now }]]),
    },
  }
  core.world.channels.set(thread.id, thread)
  publishThread(core, 'THREAD_CREATE', thread, true)
  armAutoArchive(core, thread)
  if (starter) {
    starter.threadId = thread.id
    publishUpdate(core, starter)
    const reference = { channelId: parent.id, messageId: starter.id }
    createMessage(core, thread, { authorId: starter.authorId, type: 21, reference })
  } else if (input.type === ThreadType.public) {
    createMessage(core, parent, {
      authorId: ownerId,
      type: 18,
      content: input.name,
      reference: { channelId: thread.id },
    })
  }
  core.changes.emit('change', parent.id)
  return thread
}

export interface ThreadChange {
  readonly name?: string
  readonly isArchived?: boolean
  readonly isLocked?: boolean
  readonly isInvitable?: boolean
  readonly autoArchiveMinutes?: number
  readonly rateLimitPerUser?: number
}

export function changeThread(core: Core, channel: ChannelRecord, change: ThreadChange): void {
  const thread = channel.thread!
  const now = core.clock.now()
  if (change.isArchived !== undefined && change.isArchived !== thread.isArchived) {
    thread.isArchived = change.isArchived
    thread.archivedAt = now
    thread.activeAt = now
  }
  if (change.name !== undefined) channel.name = change.name
  if (change.rateLimitPerUser !== undefined) channel.rateLimitPerUser = change.rateLimitPerUser
  if (change.isLocked !== undefined) thread.isLocked = change.isLocked
  if (change.isInvitable !== undefined) thread.isInvitable = change.isInvitable
  if (change.autoArchiveMinutes !== undefined) thread.autoArchiveMinutes = change.autoArchiveMinutes
  if (!thread.isArchived) armAutoArchive(core, channel)
  publishThread(core, 'THREAD_UPDATE', channel, false)
  core.changes.emit('change', channel.id)
}

/** A message is about to be sent: an archived thread becomes active, and its archiving moves. */
export function touchThread(core: Core, channel: ChannelRecord): void {
  const thread = channel.thread!
  thread.activeAt = core.clock.now()
  if (thread.isArchived) changeThread(core, channel, { isArchived: false })
}

export function addThreadMember(core: Core, channel: ChannelRecord, userId: string): void {
  const { members } = channel.thread!
  if (members.has(userId)) return
  members.set(userId, { joinedAt: core.clock.now() })
  publishMembers(core, channel, [userId], [])
}

export function removeThreadMember(core: Core, channel: ChannelRecord, userId: string): void {
  if (!channel.thread!.members.delete(userId)) return
  publishMembers(core, channel, [], [userId])
}

function publishMembers(core: Core, channel: ChannelRecord, added: string[], removed: string[]): void {
  const guild = core.world.guilds.get(channel.guildId)!
  core.publish({
    name: 'THREAD_MEMBERS_UPDATE',
    guildId: channel.guildId,
    channelId: channel.id,
    intent: 0,
    data: ({ botId, intents }) => {
      const isOwn = added.includes(botId) || removed.includes(botId)
      if (!isOwn && !(intents & Intent.guildMembers)) return undefined
      return {
        id: channel.id,
        guild_id: channel.guildId,
        member_count: Math.min(channel.thread!.members.size, 50),
        added_members: added.map((id) => ({
          ...threadMemberPayload(channel, id),
          member: memberPayload(core.world, guild, id),
          presence: null,
        })),
        removed_member_ids: removed,
      }
    },
  })
  core.changes.emit('change', channel.id)
}

export function publishThread(core: Core, name: string, channel: ChannelRecord, isNew: boolean): void {
  core.publish({
    name,
    guildId: channel.guildId,
    channelId: channel.id,
    intent: Intent.guilds,
    data: ({ botId }) => ({ ...threadPayloadFor(channel, botId), ...(isNew && { newly_created: true }) }),
  })
}

const archiveTimers = new WeakMap<ChannelRecord, () => void>()

/** Archives the thread when nothing was said for its `auto_archive_duration`. */
function armAutoArchive(core: Core, channel: ChannelRecord): void {
  archiveTimers.get(channel)?.()
  const thread = channel.thread!
  const dueAt = thread.activeAt + thread.autoArchiveMinutes * 60_000
  const cancel = core.clock.schedule(dueAt, () => {
    const isGone = core.world.channels.get(channel.id) !== channel
    if (isGone || thread.isArchived) return
    if (thread.activeAt + thread.autoArchiveMinutes * 60_000 > core.clock.now()) armAutoArchive(core, channel)
    else changeThread(core, channel, { isArchived: true })
  })
  archiveTimers.set(channel, cancel)
}
