import type { Core } from '../core.ts'
import { createChannel } from '../state/channels.ts'
import { addMember, changeRole, inviteBot, kickBot, setMemberRoles, setUnavailable } from '../state/guilds.ts'
import { bits, type PermissionName } from '../state/permissions.ts'
import type { BotRecord, GuildRecord } from '../state/world.ts'
import { TwinChannel } from './channel.ts'
import { openRole } from './open-user.ts'

/** What a bot of ours is invited with. */
export const DEFAULT_BOT_PERMISSIONS: readonly PermissionName[] = [
  'ViewChannel',
  'SendMessages',
  'SendMessagesInThreads',
  'CreatePublicThreads',
  'ManageThreads',
  'EmbedLinks',
  'AttachFiles',
  'ReadMessageHistory',
  'AddReactions',
]

/** A bot's application. Give `token` to `client.login`. */
export interface TwinBot {
  readonly id: string
  readonly name: string
  readonly token: string
}

export class TwinGuild {
  readonly id: string
  readonly name: string
  readonly #core: Core
  readonly #record: GuildRecord

  constructor(core: Core, record: GuildRecord) {
    this.#core = core
    this.#record = record
    this.id = record.id
    this.name = record.name
  }

  /** The text channel with this name; creates it if it does not exist. */
  channel(name: string): TwinChannel {
    const existing = [...this.#core.world.channels.values()].find(
      (channel) => channel.guildId === this.id && !channel.thread && channel.name === name,
    )
    return new TwinChannel(this.#core, existing ?? createChannel(this.#core, this.id, { name }))
  }

  get channels(): TwinChannel[] {
    return [...this.#core.world.channels.values()]
      .filter(({ guildId, thread }) => guildId === this.id && !thread)
      .map((channel) => new TwinChannel(this.#core, channel))
  }

  /** The role with this name; creates it if it does not exist. Returns its id. */
  role(name: string, permissions?: readonly PermissionName[]): string {
    return openRole(this.#core, this.#record, name, permissions && bits(permissions))
  }

  /** Gives a member exactly these roles. */
  setRoles(member: { readonly id: string }, names: readonly string[]): void {
    setMemberRoles(
      this.#core,
      this.#record,
      member.id,
      names.map((name) => this.role(name)),
    )
  }

  /** Replaces what @everyone may do. */
  setEveryone(permissions: readonly PermissionName[]): void {
    changeRole(this.#core, this.#record, this.#record.roles.get(this.id)!, bits(permissions))
  }

  /** Replaces what a bot's own role may do. Note that @everyone may do most things in a new guild. */
  setBotPermissions(bot: TwinBot, permissions: readonly PermissionName[]): void {
    const roleId = this.#record.members.get(bot.id)?.roleIds[0]
    const role = roleId === undefined ? undefined : this.#record.roles.get(roleId)
    if (!role) throw new Error(`the bot "${bot.name}" is not in the guild "${this.name}"`)
    changeRole(this.#core, this.#record, role, bits(permissions))
  }

  /** Adds a bot, or adds it again after `kick`. */
  invite(bot: TwinBot, permissions: readonly PermissionName[] = DEFAULT_BOT_PERMISSIONS): void {
    inviteBot(this.#core, this.#record, this.#bot(bot), bits(permissions))
  }

  kick(bot: TwinBot): void {
    kickBot(this.#core, this.#record, this.#bot(bot))
  }

  hasBot(bot: TwinBot): boolean {
    return this.#record.members.has(bot.id)
  }

  /** Begins or ends an outage of this guild. */
  setUnavailable(isUnavailable = true): void {
    setUnavailable(this.#core, this.#record, isUnavailable)
  }

  /** Makes a user of another guild a member of this one. */
  addMember(user: { readonly id: string }): void {
    addMember(this.#core, this.#record, user.id)
  }

  #bot({ id, name }: TwinBot): BotRecord {
    const bot = this.#core.world.bots.get(id)
    if (!bot) throw new Error(`the twin has no bot "${name}"`)
    return bot
  }
}
