import { type Core, Intent } from '../core.ts'
import { guildCreatePayload, memberPayload, rolePayload } from './payloads.ts'
import { EVERYONE_PERMISSIONS } from './permissions.ts'
import type { BotRecord, GuildRecord, RoleRecord, UserRecord } from './world.ts'

export function createUser(core: Core, name: string, isBot = false): UserRecord {
  const user = { id: core.newId(), name, isBot }
  core.world.users.set(user.id, user)
  return user
}

export function createBot(core: Core, name: string): BotRecord {
  const { id } = createUser(core, name, true)
  const token = `${Buffer.from(id).toString('base64url')}.twin.${crypto.randomUUID().replaceAll('-', '')}`
  const bot: BotRecord = { id, name, token, privilegedIntents: -1, commands: new Map() }
  core.world.bots.set(id, bot)
  return bot
}

export function createGuild(core: Core, name: string): GuildRecord {
  const owner = createUser(core, `owner of ${name}`)
  const id = core.newId()
  const everyone: RoleRecord = { id, name: '@everyone', permissions: EVERYONE_PERMISSIONS, position: 0 }
  const guild: GuildRecord = {
    id,
    name,
    ownerId: owner.id,
    roles: new Map([[id, everyone]]),
    members: new Map(),
    isUnavailable: false,
  }
  core.world.guilds.set(id, guild)
  addMember(core, guild, owner.id)
  return guild
}

export function createRole(core: Core, guild: GuildRecord, name: string, permissions: bigint): RoleRecord {
  const role: RoleRecord = { id: core.newId(), name, permissions, position: guild.roles.size }
  guild.roles.set(role.id, role)
  publishRole(core, 'GUILD_ROLE_CREATE', guild, role)
  return role
}

export function changeRole(core: Core, guild: GuildRecord, role: RoleRecord, permissions: bigint): void {
  role.permissions = permissions
  publishRole(core, 'GUILD_ROLE_UPDATE', guild, role)
}

function publishRole(core: Core, name: string, guild: GuildRecord, role: RoleRecord): void {
  const data = { guild_id: guild.id, role: rolePayload(role) }
  core.publish({ name, guildId: guild.id, intent: Intent.guilds, data: () => data })
}

export function addMember(core: Core, guild: GuildRecord, userId: string, roleIds: string[] = []): void {
  guild.members.set(userId, { userId, roleIds, joinedAt: core.clock.now() })
  const data = { ...memberPayload(core.world, guild, userId), guild_id: guild.id }
  core.publish({
    name: 'GUILD_MEMBER_ADD',
    guildId: guild.id,
    intent: Intent.guildMembers,
    data: ({ botId }) => (botId === userId ? undefined : data),
  })
}

/** Gives a member exactly these roles. A bot always learns of changes to itself. */
export function setMemberRoles(core: Core, guild: GuildRecord, userId: string, roleIds: string[]): void {
  const { joinedAt } = guild.members.get(userId)!
  guild.members.set(userId, { userId, roleIds, joinedAt })
  const data = { ...memberPayload(core.world, guild, userId), guild_id: guild.id }
  core.publish({
    name: 'GUILD_MEMBER_UPDATE',
    guildId: guild.id,
    intent: 0,
    data: ({ botId, intents }) => (botId === userId || intents & Intent.guildMembers ? data : undefined),
  })
}

/** Adds a bot to a guild: it receives GUILD_CREATE. */
export function inviteBot(core: Core, guild: GuildRecord, bot: BotRecord, permissions: bigint): void {
  const role: RoleRecord = { id: core.newId(), name: bot.name, permissions, position: guild.roles.size }
  guild.roles.set(role.id, role)
  addMember(core, guild, bot.id, [role.id])
  publishGuildCreate(core, guild, bot.id)
}

/** Removes a bot from a guild: it receives GUILD_DELETE without `unavailable`, and its commands there are gone. */
export function kickBot(core: Core, guild: GuildRecord, bot: BotRecord): void {
  const data = { id: guild.id }
  core.publish({
    name: 'GUILD_DELETE',
    guildId: guild.id,
    intent: Intent.guilds,
    botId: bot.id,
    data: () => data,
  })
  const member = guild.members.get(bot.id)
  guild.members.delete(bot.id)
  for (const id of member?.roleIds ?? []) guild.roles.delete(id)
  bot.commands.delete(guild.id)
  core.changes.emit('change')
}

/** Begins or ends an outage of one guild. */
export function setUnavailable(core: Core, guild: GuildRecord, isUnavailable: boolean): void {
  if (guild.isUnavailable === isUnavailable) return
  if (isUnavailable) {
    const data = { id: guild.id, unavailable: true }
    core.publish({ name: 'GUILD_DELETE', guildId: guild.id, intent: Intent.guilds, data: () => data })
    guild.isUnavailable = true
  } else {
    guild.isUnavailable = false
    publishGuildCreate(core, guild)
  }
}

export function publishGuildCreate(core: Core, guild: GuildRecord, botId?: string): void {
  core.publish({
    name: 'GUILD_CREATE',
    guildId: guild.id,
    intent: Intent.guilds,
    botId,
    data: (viewer) =>
      guildCreatePayload(core.world, guild, viewer, Boolean(viewer.intents & Intent.guildMembers)),
  })
}
