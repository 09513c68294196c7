import { Client, type ClientOptions, GatewayIntentBits, Options } from 'discord.js'

/** What the bot listens to. The content of messages is a privileged intent: it is switched on in Discord’s portal. */
export const intents = [
  GatewayIntentBits.Guilds,
  GatewayIntentBits.GuildMessages,
  GatewayIntentBits.MessageContent,
] as const

/** A client that keeps no messages, and only its own member. */
export function clientOf(rest: ClientOptions['rest']): Client {
  return new Client({
    intents: [...intents],
    rest,
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
