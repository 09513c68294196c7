import type { Core, TwinEvent } from '../core.ts'
import { channelPermissions } from '../state/permissions.ts'
import type { Session } from './session.ts'

/** What a session receives of an event; `undefined` if it does not receive it. */
export function eventFor(core: Core, session: Session, event: TwinEvent): object | undefined {
  const { world } = core
  const guild = world.guilds.get(event.guildId)
  const botId = session.bot.id
  if (!guild?.members.has(botId) || guild.isUnavailable) return undefined
  if (event.botId !== undefined && event.botId !== botId) return undefined
  if (event.intent !== 0 && !(session.intents & event.intent)) return undefined
  const channel = event.channelId === undefined ? undefined : world.channels.get(event.channelId)
  if (channel && channelPermissions(world, channel, botId) === 0n) return undefined
  return event.data({ botId, intents: session.intents })
}
