import { DiscordError } from '../../errors.ts'
import { changeChannel, deleteChannel } from '../../state/channels.ts'
import { channelPayload, threadPayloadFor } from '../../state/payloads.ts'
import { may, sendPermission } from '../../state/permissions.ts'
import { changeThread } from '../../state/threads.ts'
import { publishTyping } from '../../state/typing.ts'
import type { ChannelRecord, Overwrite } from '../../state/world.ts'
import { type Body, Form } from '../form.ts'
import { type BotCall, channelOf, type Route, requirePermissions, route } from '../route.ts'
import { textChannelName } from './guilds.ts'

const ARCHIVE_MINUTES = [60, 1440, 4320, 10_080]

export const channelRoutes: Route[] = [
  route('GET /channels/:channel', (call) => {
    const channel = channelOf(call)
    return channel.thread ? threadPayloadFor(channel, call.bot.id) : channelPayload(channel)
  }),
  route('PATCH /channels/:channel', (call) => {
    const channel = channelOf(call)
    if (channel.thread) return patchThread(call, channel)
    requirePermissions(call.core, channel, call.bot.id, 'ManageChannels')
    const form = new Form()
    const name = form.text(['name'], call.body.name, { min: 1, max: 100 })
    const topic = form.text(['topic'], call.body.topic, { max: 1024 })
    form.throwIfAny()
    changeChannel(call.core, channel, {
      name: name === undefined ? undefined : textChannelName(name),
      topic: call.body.topic === null ? null : topic,
      overwrites: call.body.permission_overwrites
        ? parseOverwrites(call.body.permission_overwrites)
        : undefined,
    })
    return channelPayload(channel)
  }),
  route('DELETE /channels/:channel', (call) => {
    const channel = channelOf(call)
    requirePermissions(call.core, channel, call.bot.id, channel.thread ? 'ManageThreads' : 'ManageChannels')
    const payload = channelPayload(channel)
    deleteChannel(call.core, channel)
    return payload
  }),
  route('POST /channels/:channel/typing', (call) => {
    const channel = channelOf(call)
    requirePermissions(call.core, channel, call.bot.id, sendPermission(channel))
    publishTyping(call.core, channel, call.bot.id)
    return undefined
  }),
  route('PUT /channels/:channel/permissions/:overwrite', (call) => {
    const channel = channelOf(call, 'ManageRoles')
    const { id, type, allow, deny } = parseOverwrites([{ ...call.body, id: call.params.overwrite }])[0]!
    const others = channel.overwrites.filter((other) => other.id !== id)
    changeChannel(call.core, channel, { overwrites: [...others, { id, type, allow, deny }] })
    return undefined
  }),
  route('DELETE /channels/:channel/permissions/:overwrite', (call) => {
    const channel = channelOf(call, 'ManageRoles')
    const overwrites = channel.overwrites.filter(({ id }) => id !== call.params.overwrite)
    changeChannel(call.core, channel, { overwrites })
    return undefined
  }),
]

/** The owner may rename and archive, every member may reopen, and MANAGE_THREADS allows all changes. */
function patchThread({ core, bot, body }: BotCall, channel: ChannelRecord): object {
  const thread = channel.thread!
  const isModerator = may(core.world, channel, bot.id, 'ManageThreads')
  const isOwner = thread.ownerId === bot.id
  const isReopening = body.archived === false && Object.keys(body).length === 1
  const mayReopen =
    isReopening && !thread.isLocked && may(core.world, channel, bot.id, 'SendMessagesInThreads')
  const touchesLock = 'locked' in body && body.locked !== thread.isLocked
  if (!isModerator && !mayReopen && (!isOwner || touchesLock || thread.isLocked)) {
    throw new DiscordError('missingPermissions')
  }
  const form = new Form()
  const name = form.text(['name'], body.name, { min: 1, max: 100 })
  const autoArchiveMinutes = form.choice(
    ['auto_archive_duration'],
    body.auto_archive_duration,
    ARCHIVE_MINUTES,
  )
  form.throwIfAny()
  if (thread.isArchived && body.archived !== false && !onlyTouches(body, ['archived', 'locked'])) {
    throw new DiscordError('threadIsArchived')
  }
  changeThread(core, channel, {
    name,
    autoArchiveMinutes,
    isArchived: flag(body.archived),
    isLocked: flag(body.locked),
    isInvitable: flag(body.invitable),
    rateLimitPerUser: typeof body.rate_limit_per_user === 'number' ? body.rate_limit_per_user : undefined,
  })
  return threadPayloadFor(channel, bot.id)
}

function flag(value: unknown): boolean | undefined {
  return typeof value === 'boolean' ? value : undefined
}

function onlyTouches(body: Body, keys: readonly string[]): boolean {
  return Object.keys(body).every((key) => keys.includes(key))
}

export function parseOverwrites(value: unknown): Overwrite[] {
  const form = new Form()
  const list = form.list(['permission_overwrites'], value) ?? []
  form.throwIfAny()
  return list.map(({ id, type, allow, deny }) => ({
    id: String(id),
    type: Number(type) === 1 ? 1 : 0,
    allow: BigInt(String(allow ?? 0)),
    deny: BigInt(String(deny ?? 0)),
  }))
}
