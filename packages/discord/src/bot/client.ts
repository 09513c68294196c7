import { Client, GatewayIntentBits, Options } from 'discord.js'

/** What the bot listens to. The content of messages is a privileged intent: it is switched on in Discord’s portal. */
export const intents = [
  GatewayIntentBits.Guilds,
  GatewayIntentBits.GuildMessages,
  GatewayIntentBits.MessageContent,
] as const

/** Discord allows 50. Its second and that of discord.js do not begin at the same time. */
const requestsPerSecond = 45

/** A client that keeps no messages, and only its own member. */
export function clientOf(api: string | undefined): Client {
  return new Client({
    intents: [...intents],
    rest: { version: '10', globalRequestsPerSecond: requestsPerSecond, ...(api ? { api } : {}) },
    allowedMentions: { parse: [] },
    makeCache: Options.cacheWithLimits({
      ...Options.DefaultMakeCacheSettings,
      MessageManager: 0,
      ReactionManager: 0,
      PresenceManager: 0,
      ThreadMemberManager: 0,
      GuildMemberManager: { maxSize: 200, keepOverLimit: (member) => member.id === member.client.user.id },
      UserManager: { maxSize: 200, keepOverLimit: (user) => user.id === user.client.user.id },
    }),
  })
}
