import type { Core } from '../core.ts'
import { addMember, changeRole, createRole, createUser, setMemberRoles } from '../state/guilds.ts'
import { bits, type PermissionName } from '../state/permissions.ts'
import type { ChannelRecord, GuildRecord } from '../state/world.ts'
import { TwinUser } from './user.ts'

export interface UserOptions {
  /** Names of roles, which are created if they do not exist. The user has exactly these. */
  readonly roles?: readonly string[]
  /** Permissions in the guild, through a role of the user's own. */
  readonly permissions?: readonly PermissionName[]
}

/** Finds or creates a user, makes it a member of the channel's guild, and sets its roles. */
export function openUser(
  core: Core,
  channel: ChannelRecord,
  idOrName: string,
  { roles, permissions }: UserOptions = {},
): TwinUser {
  const { world } = core
  const guild = world.guilds.get(channel.guildId)!
  const byName = () => [...world.users.values()].find(({ name, isBot }) => name === idOrName && !isBot)
  const user = world.users.get(idOrName) ?? byName() ?? createUser(core, idOrName)
  if (!guild.members.has(user.id)) addMember(core, guild, user.id)
  if (roles || permissions) {
    const roleIds = (roles ?? []).map((name) => openRole(core, guild, name))
    if (permissions) roleIds.push(openRole(core, guild, `permissions of ${user.name}`, bits(permissions)))
    setMemberRoles(core, guild, user.id, roleIds)
  }
  return new TwinUser(core, channel, user.id, user.name)
}

/** The id of the role with this name. Creates it if it does not exist. */
export function openRole(core: Core, guild: GuildRecord, name: string, permissions?: bigint): string {
  const existing = [...guild.roles.values()].find((role) => role.name === name)
  if (!existing) return createRole(core, guild, name, permissions ?? 0n).id
  if (permissions !== undefined) changeRole(core, guild, existing, permissions)
  return existing.id
}
