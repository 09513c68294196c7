import { DiscordError } from '../../errors.ts'
import { createChannel } from '../../state/channels.ts'
import {
  channelPayload,
  guildPayload,
  memberPayload,
  rolePayload,
  threadMemberPayload,
  threadPayloadFor,
} from '../../state/payloads.ts'
import { channelPermissions, guildPermissions, Permission } from '../../state/permissions.ts'
import { Form } from '../form.ts'
import { Created, guildOf, type Route, route } from '../route.ts'
import { parseOverwrites } from './channels.ts'

export const guildRoutes: Route[] = [
  route('GET /guilds/:guild', (call) => guildPayload(guildOf(call))),
  route('GET /guilds/:guild/roles', (call) => [...guildOf(call).roles.values()].map(rolePayload)),
  route('GET /guilds/:guild/channels', (call) => {
    const guild = guildOf(call)
    return [...call.core.world.channels.values()]
      .filter(({ guildId, thread }) => guildId === guild.id && !thread)
      .map(channelPayload)
  }),
  route('POST /guilds/:guild/channels', (call) => {
    const { core, bot, body } = call
    const guild = guildOf(call)
    if (!(guildPermissions(guild, bot.id) & Permission.ManageChannels))
      throw new DiscordError('missingPermissions')
    const form = new Form()
    const name = form.text(['name'], body.name, { min: 1, max: 100, required: true })
    const topic = form.text(['topic'], body.topic, { max: 1024 })
    const type = form.choice(['type'], body.type ?? 0, [0, 2, 4, 5, 13, 15])
    form.throwIfAny()
    const channel = createChannel(core, guild.id, {
      name: type === 0 ? textChannelName(name!) : name!,
      type,
      topic: topic ?? null,
      parentId: typeof body.parent_id === 'string' ? body.parent_id : null,
      overwrites: parseOverwrites(body.permission_overwrites),
    })
    return new Created(channelPayload(channel))
  }),
  route('GET /guilds/:guild/members', (call) => {
    const guild = guildOf(call)
    const limit = Math.min(Number(call.query.get('limit') ?? 1), 1000)
    return [...guild.members.keys()].slice(0, limit).map((id) => memberPayload(call.core.world, guild, id))
  }),
  route('GET /guilds/:guild/members/:user', (call) => {
    const guild = guildOf(call)
    if (!call.core.world.users.has(call.params.user!)) throw new DiscordError('unknownUser')
    if (!guild.members.has(call.params.user!)) throw new DiscordError('unknownMember')
    return memberPayload(call.core.world, guild, call.params.user!)
  }),
  route('GET /guilds/:guild/threads/active', (call) => {
    const { core, bot } = call
    const guild = guildOf(call)
    const threads = [...core.world.channels.values()].filter(
      (channel) =>
        channel.guildId === guild.id &&
        channel.thread?.isArchived === false &&
        channelPermissions(core.world, channel, bot.id) !== 0n,
    )
    return {
      threads: threads.map((thread) => threadPayloadFor(thread, bot.id)),
      members: threads.flatMap((thread) => threadMemberPayload(thread, bot.id) ?? []),
      has_more: false,
    }
  }),
]

/** Discord writes names of text channels in lower case, with dashes for spaces. */
export function textChannelName(name: string): string {
  return name.toLowerCase().replaceAll(/\s+/g, '-')
}
