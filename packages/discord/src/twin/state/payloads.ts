import type { Viewer } from '../core.ts'
import { channelPermissions, guildPermissions } from './permissions.ts'
import type { BotRecord, ChannelRecord, GuildRecord, RoleRecord, UserRecord, World } from './world.ts'

/** Discord's JSON of users, members, roles, channels and guilds. */

export function userPayload(user: UserRecord) {
  return {
    id: user.id,
    username: user.name,
    discriminator: user.isBot ? '0001' : '0',
    global_name: user.isBot ? null : user.name,
    avatar: null,
    bot: user.isBot,
    system: false,
    public_flags: 0,
    flags: 0,
    banner: null,
    accent_color: null,
    avatar_decoration_data: null,
    collectibles: null,
    primary_guild: null,
  }
}

export function memberPayload(world: World, guild: GuildRecord, userId: string) {
  const member = guild.members.get(userId)
  return {
    user: userPayload(world.users.get(userId)!),
    ...bareMember(member ? member.roleIds : [], member?.joinedAt ?? 0),
  }
}

/** A member without its user, as in messages. */
export function bareMemberPayload(guild: GuildRecord, userId: string) {
  const member = guild.members.get(userId)
  return member && bareMember(member.roleIds, member.joinedAt)
}

function bareMember(roleIds: readonly string[], joinedAt: number) {
  return {
    nick: null,
    avatar: null,
    banner: null,
    roles: [...roleIds],
    joined_at: time(joinedAt),
    premium_since: null,
    deaf: false,
    mute: false,
    flags: 0,
    pending: false,
    communication_disabled_until: null,
  }
}

export function rolePayload(role: RoleRecord) {
  return {
    id: role.id,
    name: role.name,
    color: 0,
    colors: { primary_color: 0, secondary_color: null, tertiary_color: null },
    hoist: false,
    icon: null,
    unicode_emoji: null,
    position: role.position,
    permissions: String(role.permissions),
    managed: false,
    mentionable: false,
    flags: 0,
  }
}

export function channelPayload(channel: ChannelRecord) {
  if (channel.thread) return threadPayload(channel)
  return {
    id: channel.id,
    type: channel.type,
    guild_id: channel.guildId,
    name: channel.name,
    topic: channel.topic,
    position: channel.position,
    parent_id: channel.parentId,
    nsfw: false,
    rate_limit_per_user: channel.rateLimitPerUser,
    last_message_id: channel.lastMessageId,
    last_pin_timestamp: null,
    default_auto_archive_duration: 1440,
    flags: 0,
    permission_overwrites: channel.overwrites.map(({ id, type, allow, deny }) => ({
      id,
      type,
      allow: String(allow),
      deny: String(deny),
    })),
  }
}

function threadPayload(channel: ChannelRecord) {
  const thread = channel.thread!
  return {
    id: channel.id,
    type: channel.type,
    guild_id: channel.guildId,
    parent_id: channel.parentId,
    owner_id: thread.ownerId,
    name: channel.name,
    last_message_id: channel.lastMessageId,
    last_pin_timestamp: null,
    rate_limit_per_user: channel.rateLimitPerUser,
    message_count: thread.messageCount,
    member_count: Math.min(thread.members.size, 50),
    total_message_sent: thread.totalMessageSent,
    flags: 0,
    applied_tags: [],
    thread_metadata: {
      archived: thread.isArchived,
      archive_timestamp: time(thread.archivedAt),
      auto_archive_duration: thread.autoArchiveMinutes,
      locked: thread.isLocked,
      create_timestamp: time(thread.createdAt),
      ...(channel.type === 12 && { invitable: thread.isInvitable }),
    },
  }
}

export function threadMemberPayload(channel: ChannelRecord, userId: string) {
  const member = channel.thread!.members.get(userId)
  return member && { id: channel.id, user_id: userId, join_timestamp: time(member.joinedAt), flags: 0 }
}

/** A thread as one bot sees it: with its own membership. */
export function threadPayloadFor(channel: ChannelRecord, userId: string) {
  const member = threadMemberPayload(channel, userId)
  return { ...channelPayload(channel), ...(member && { member }) }
}

export function guildPayload(guild: GuildRecord) {
  return {
    id: guild.id,
    name: guild.name,
    owner_id: guild.ownerId,
    icon: null,
    icon_hash: null,
    splash: null,
    discovery_splash: null,
    banner: null,
    description: null,
    vanity_url_code: null,
    afk_channel_id: null,
    afk_timeout: 300,
    widget_enabled: false,
    widget_channel_id: null,
    verification_level: 0,
    default_message_notifications: 1,
    explicit_content_filter: 0,
    roles: [...guild.roles.values()].map(rolePayload),
    emojis: [],
    stickers: [],
    features: [],
    mfa_level: 0,
    application_id: null,
    system_channel_id: null,
    system_channel_flags: 0,
    rules_channel_id: null,
    public_updates_channel_id: null,
    safety_alerts_channel_id: null,
    max_presences: null,
    max_members: 500_000,
    max_video_channel_users: 25,
    max_stage_video_channel_users: 50,
    premium_tier: 0,
    premium_subscription_count: 0,
    premium_progress_bar_enabled: false,
    preferred_locale: 'en-US',
    nsfw_level: 0,
    hub_type: null,
    incidents_data: null,
    approximate_member_count: guild.members.size,
    approximate_presence_count: 0,
    region: 'deprecated',
  }
}

/** The payload of GUILD_CREATE: what this bot may see of the guild. */
export function guildCreatePayload(world: World, guild: GuildRecord, viewer: Viewer, seesMembers: boolean) {
  const channels = [...world.channels.values()].filter(({ guildId }) => guildId === guild.id)
  const isVisible = (channel: ChannelRecord) => channelPermissions(world, channel, viewer.botId) !== 0n
  const memberIds = seesMembers ? [...guild.members.keys()] : [viewer.botId]
  return {
    ...guildPayload(guild),
    joined_at: time(guild.members.get(viewer.botId)!.joinedAt),
    large: false,
    unavailable: false,
    member_count: guild.members.size,
    voice_states: [],
    members: memberIds.map((id) => memberPayload(world, guild, id)),
    channels: channels.filter(({ thread }) => !thread).map(channelPayload),
    threads: channels
      .filter((channel) => channel.thread && !channel.thread.isArchived && isVisible(channel))
      .map((thread) => threadPayloadFor(thread, viewer.botId)),
    presences: [],
    stage_instances: [],
    guild_scheduled_events: [],
    soundboard_sounds: [],
  }
}

export function applicationPayload(world: World, bot: BotRecord) {
  return {
    id: bot.id,
    name: bot.name,
    icon: null,
    description: '',
    summary: '',
    bot_public: true,
    bot_require_code_grant: false,
    verify_key: '0'.repeat(64),
    team: null,
    owner: null,
    flags: applicationFlags(bot),
    tags: [],
    integration_types_config: { 0: {} },
    redirect_uris: [],
    interactions_endpoint_url: null,
    role_connections_verification_url: null,
    approximate_guild_count: [...world.guilds.values()].filter(({ members }) => members.has(bot.id)).length,
    bot: userPayload(world.users.get(bot.id)!),
  }
}

/** Flags of the application that tell which privileged intents are on, for bots in few guilds. */
export function applicationFlags(bot: BotRecord): number {
  const members = bot.privilegedIntents & (1 << 1) ? 1 << 15 : 0
  const presences = bot.privilegedIntents & (1 << 8) ? 1 << 13 : 0
  const content = bot.privilegedIntents & (1 << 15) ? 1 << 19 : 0
  return members | presences | content
}

/** A member in an interaction carries its permissions in the channel. */
export function interactionMemberPayload(world: World, channel: ChannelRecord, userId: string) {
  const guild = world.guilds.get(channel.guildId)!
  return {
    ...memberPayload(world, guild, userId),
    permissions: String(channelPermissions(world, channel, userId) || guildPermissions(guild, userId)),
  }
}

export function time(ms: number): string {
  return new Date(ms).toISOString().replace('Z', '000+00:00')
}
