import { type Core, Intent } from '../core.ts'
import { memberPayload } from './payloads.ts'
import type { ChannelRecord } from './world.ts'

export function publishTyping(core: Core, channel: ChannelRecord, userId: string): void {
  const guild = core.world.guilds.get(channel.guildId)!
  const data = {
    channel_id: channel.id,
    guild_id: guild.id,
    user_id: userId,
    timestamp: Math.floor(core.clock.now() / 1000),
    member: memberPayload(core.world, guild, userId),
  }
  const where = { guildId: guild.id, channelId: channel.id }
  core.publish({ name: 'TYPING_START', ...where, intent: Intent.guildMessageTyping, data: () => data })
}
