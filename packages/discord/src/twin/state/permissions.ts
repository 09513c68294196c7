import type { ChannelRecord, GuildRecord, World } from './world.ts'

/** Discord's permission bits, with the names of discord.js. */
export const Permission = {
  KickMembers: 1n << 1n,
  Administrator: 1n << 3n,
  ManageChannels: 1n << 4n,
  ManageGuild: 1n << 5n,
  AddReactions: 1n << 6n,
  ViewChannel: 1n << 10n,
  SendMessages: 1n << 11n,
  ManageMessages: 1n << 13n,
  EmbedLinks: 1n << 14n,
  AttachFiles: 1n << 15n,
  ReadMessageHistory: 1n << 16n,
  MentionEveryone: 1n << 17n,
  UseExternalEmojis: 1n << 18n,
  ManageRoles: 1n << 28n,
  ManageWebhooks: 1n << 29n,
  UseApplicationCommands: 1n << 31n,
  ManageThreads: 1n << 34n,
  CreatePublicThreads: 1n << 35n,
  CreatePrivateThreads: 1n << 36n,
  SendMessagesInThreads: 1n << 38n,
} as const

export type PermissionName = keyof typeof Permission

export const ALL_PERMISSIONS = (1n << 53n) - 1n

/** What @everyone may do in a new guild. */
export const EVERYONE_PERMISSIONS = bits([
  'ViewChannel',
  'SendMessages',
  'SendMessagesInThreads',
  'CreatePublicThreads',
  'CreatePrivateThreads',
  'EmbedLinks',
  'AttachFiles',
  'ReadMessageHistory',
  'AddReactions',
  'UseApplicationCommands',
])

export function bits(names: readonly PermissionName[]): bigint {
  return names.reduce((sum, name) => {
    const bit = Permission[name]
    if (bit === undefined) throw new Error(`unknown permission "${name}"`)
    return sum | bit
  }, 0n)
}

export function guildPermissions(guild: GuildRecord, userId: string): bigint {
  if (guild.ownerId === userId) return ALL_PERMISSIONS
  const member = guild.members.get(userId)
  if (!member) return 0n
  let sum = guild.roles.get(guild.id)!.permissions
  for (const id of member.roleIds) sum |= guild.roles.get(id)?.permissions ?? 0n
  return sum & Permission.Administrator ? ALL_PERMISSIONS : sum
}

/** What a member may do in a channel or thread, as Discord computes it. */
export function channelPermissions(world: World, channel: ChannelRecord, userId: string): bigint {
  const guild = world.guilds.get(channel.guildId)
  const member = guild?.members.get(userId)
  if (!guild || !member) return 0n
  let sum = guildPermissions(guild, userId)
  if (sum & Permission.Administrator) return ALL_PERMISSIONS
  const { overwrites } = channel.thread ? world.channels.get(channel.parentId!)! : channel
  const apply = (allow: bigint, deny: bigint) => {
    sum = (sum & ~deny) | allow
  }
  const everyone = overwrites.find(({ id }) => id === guild.id)
  if (everyone) apply(everyone.allow, everyone.deny)
  const ofRoles = overwrites.filter(({ id, type }) => type === 0 && member.roleIds.includes(id))
  apply(
    ofRoles.reduce((all, { allow }) => all | allow, 0n),
    ofRoles.reduce((all, { deny }) => all | deny, 0n),
  )
  const ofMember = overwrites.find(({ id, type }) => type === 1 && id === userId)
  if (ofMember) apply(ofMember.allow, ofMember.deny)
  if (!(sum & Permission.ViewChannel)) return 0n
  const isHiddenThread =
    channel.type === 12 && !channel.thread!.members.has(userId) && !(sum & Permission.ManageThreads)
  return isHiddenThread ? 0n : sum
}

export function may(world: World, channel: ChannelRecord, userId: string, name: PermissionName): boolean {
  return Boolean(channelPermissions(world, channel, userId) & Permission[name])
}

/** The permission to send depends on where: threads have one of their own. */
export function sendPermission(channel: ChannelRecord): PermissionName {
  return channel.thread ? 'SendMessagesInThreads' : 'SendMessages'
}
