import type { Core } from '../core.ts'
import { guildPermissions, Permission } from '../state/permissions.ts'
import type { BotRecord, ChannelRecord, CommandRecord } from '../state/world.ts'

/** The command behind a text such as `sandbox list`. Commands of the guild come before global ones. */
export function findCommand(
  core: Core,
  channel: ChannelRecord,
  text: string,
  botId?: string,
): { bot: BotRecord; command: CommandRecord; path: string[] } {
  const [name, ...path] = text.replace(/^\//, '').split(' ')
  const guild = core.world.guilds.get(channel.guildId)!
  const known: string[] = []
  for (const bot of core.world.bots.values()) {
    if (!guild.members.has(bot.id) || (botId !== undefined && bot.id !== botId)) continue
    const commands = [...(bot.commands.get(guild.id) ?? []), ...(bot.commands.get('') ?? [])]
    const command = commands.find(({ body }) => body.name === name && body.type === 1)
    if (command) return { bot, command, path }
    known.push(...commands.map(({ body }) => `/${body.name}`))
  }
  throw new Error(
    `no bot in "${guild.name}" has the command /${name}; there are: ${known.join(', ') || 'none'}`,
  )
}

/** Throws if the user lacks the command's `default_member_permissions`: Discord does not show it the command. */
export function requireCommandAccess(
  core: Core,
  channel: ChannelRecord,
  user: { readonly id: string; readonly name: string },
  { body }: CommandRecord,
): void {
  if (body.default_member_permissions === null) return
  const needed = BigInt(body.default_member_permissions)
  const own = guildPermissions(core.world.guilds.get(channel.guildId)!, user.id)
  if ((own & needed) === needed && needed !== 0n) return
  const missing = Object.entries(Permission).filter(([, bit]) => needed & bit & ~own)
  const names = missing.map(([permission]) => permission).join(', ') || 'Administrator'
  throw new Error(`${user.name} does not see /${body.name}: it needs ${names}`)
}
