import type { Core } from '../core.ts'
import { bareMemberPayload, channelPayload, rolePayload, userPayload } from '../state/payloads.ts'
import { guildPermissions } from '../state/permissions.ts'
import type { ChannelRecord } from '../state/world.ts'

/** The objects behind the ids in an interaction, by kind and id. */
export type Resolved = Record<string, Record<string, object>>

export type ResolvedKind = 'user' | 'role' | 'channel'

/** Which kinds of ids a select offers, by its component type. */
export const KINDS_OF_SELECT: Readonly<Record<number, readonly ResolvedKind[]>> = {
  5: ['user'],
  6: ['role'],
  7: ['user', 'role'],
  8: ['channel'],
}

/** Adds what has this id, if it is one of these kinds. Returns whether it was found. */
export function addResolved(
  core: Core,
  channel: ChannelRecord,
  resolved: Resolved,
  id: string,
  kinds: readonly ResolvedKind[],
): boolean {
  const { world } = core
  const guild = world.guilds.get(channel.guildId)!
  const user = kinds.includes('user') ? world.users.get(id) : undefined
  const role = kinds.includes('role') ? guild.roles.get(id) : undefined
  const other = kinds.includes('channel') ? world.channels.get(id) : undefined
  if (user) {
    add(resolved, 'users', id, userPayload(user))
    const member = bareMemberPayload(guild, id)
    if (member) add(resolved, 'members', id, { ...member, permissions: String(guildPermissions(guild, id)) })
  }
  if (role) add(resolved, 'roles', id, rolePayload(role))
  if (other) add(resolved, 'channels', id, { ...channelPayload(other), permissions: '0' })
  return Boolean(user ?? role ?? other)
}

/** The chosen ids of a select, resolved. `undefined` for a select of strings. */
export function resolveSelect(
  core: Core,
  channel: ChannelRecord,
  select: { readonly type: number },
  ids: readonly string[],
): Resolved | undefined {
  const kinds = KINDS_OF_SELECT[select.type]
  if (!kinds) return undefined
  const resolved: Resolved = {}
  for (const id of ids) {
    if (!addResolved(core, channel, resolved, id, kinds)) throw new Error(`the select does not offer ${id}`)
  }
  return resolved
}

function add(resolved: Resolved, kind: string, id: string, payload: object): void {
  resolved[kind] = { ...resolved[kind], [id]: payload }
}
