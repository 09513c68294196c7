import type { Core } from '../core.ts'
import { DiscordError } from '../errors.ts'
import type { Upload } from '../state/files.ts'
import { channelPermissions, may, type PermissionName } from '../state/permissions.ts'
import type { BotRecord, ChannelRecord, GuildRecord } from '../state/world.ts'
import type { Body } from './form.ts'

/** One request to a route. */
export interface Call {
  readonly core: Core
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  readonly body: Body
  readonly files: ReadonlyMap<string, Upload>
}

/** A request of a bot. */
export interface BotCall extends Call {
  readonly bot: BotRecord
}

/** The JSON of the answer with status 200; `undefined` answers 204, and `Created` answers 201. */
export type Result = object | undefined

export class Created {
  readonly body: object
  constructor(body: object) {
    this.body = body
  }
}

export interface Route {
  /** Method and path below `/api/v10`, for example `POST /channels/:channel/messages`. */
  readonly name: string
  readonly isPublic: boolean
  readonly handle: (call: BotCall) => Result
}

/** A route that needs a bot's token. */
export function route(name: string, handle: (call: BotCall) => Result): Route {
  return { name, isPublic: false, handle }
}

/** A route whose path carries an interaction's token instead. */
export function publicRoute(name: string, handle: (call: Call) => Result): Route {
  return { name, isPublic: true, handle: handle as Route['handle'] }
}

/** The guild in the path, if the bot is a member. */
export function guildOf({ core, bot, params }: BotCall): GuildRecord {
  const guild = core.world.guilds.get(params.guild!)
  if (!guild) throw new DiscordError('unknownGuild')
  if (!guild.members.has(bot.id)) throw new DiscordError('missingAccess')
  return guild
}

/** The channel or thread in the path, if the bot sees it and has the permissions. */
export function channelOf({ core, bot, params }: BotCall, ...permissions: PermissionName[]): ChannelRecord {
  const channel = core.world.channels.get(params.channel!)
  if (!channel) throw new DiscordError('unknownChannel')
  if (channelPermissions(core.world, channel, bot.id) === 0n) throw new DiscordError('missingAccess')
  requirePermissions(core, channel, bot.id, ...permissions)
  return channel
}

export function requirePermissions(
  core: Core,
  channel: ChannelRecord,
  userId: string,
  ...permissions: PermissionName[]
): void {
  if (permissions.some((name) => !may(core.world, channel, userId, name))) {
    throw new DiscordError('missingPermissions')
  }
}
