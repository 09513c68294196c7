/** All data of the twin. Functions in this folder change it; nothing else keeps state of Discord. */
export interface World {
  readonly users: Map<string, UserRecord>
  /** By the bot's user id, which is its application's id, too. */
  readonly bots: Map<string, BotRecord>
  readonly guilds: Map<string, GuildRecord>
  /** Channels and threads. */
  readonly channels: Map<string, ChannelRecord>
  readonly interactions: Map<string, InteractionRecord>
  /** The interaction that opened the modal which a user sees, by user id. */
  readonly openModals: Map<string, InteractionRecord>
  /** Files behind the twin's CDN paths, by attachment id. */
  readonly files: Map<string, FileRecord>
  /** Messages by author and nonce. */
  readonly nonces: Map<
    string,
    { readonly messageId: string; readonly channelId: string; readonly createdAt: number }
  >
}

export interface UserRecord {
  readonly id: string
  readonly name: string
  readonly isBot: boolean
}

export interface BotRecord {
  readonly id: string
  readonly name: string
  readonly token: string
  /** Privileged intents that are switched on in the developer portal. */
  privilegedIntents: number
  /** Commands by guild id; global commands are under the empty string. */
  readonly commands: Map<string, CommandRecord[]>
}

export interface CommandRecord {
  readonly id: string
  readonly version: string
  readonly body: CommandBody
}

/** A command as the bot registered it; validated when it arrives. */
export interface CommandBody {
  readonly name: string
  readonly type: number
  readonly description: string
  readonly options: CommandOption[]
  readonly default_member_permissions: string | null
  readonly [other: string]: unknown
}

export interface CommandOption {
  readonly type: number
  readonly name: string
  readonly description: string
  readonly required?: boolean
  readonly autocomplete?: boolean
  readonly choices?: { name: string; value: string | number }[]
  readonly options?: CommandOption[]
  readonly min_value?: number
  readonly max_value?: number
  readonly min_length?: number
  readonly max_length?: number
}

export interface GuildRecord {
  readonly id: string
  readonly name: string
  readonly ownerId: string
  readonly roles: Map<string, RoleRecord>
  readonly members: Map<string, MemberRecord>
  isUnavailable: boolean
}

export interface RoleRecord {
  readonly id: string
  readonly name: string
  permissions: bigint
  readonly position: number
}

export interface MemberRecord {
  readonly userId: string
  readonly roleIds: string[]
  readonly joinedAt: number
}

export interface Overwrite {
  readonly id: string
  /** 0 is a role, 1 a member. */
  readonly type: 0 | 1
  allow: bigint
  deny: bigint
}

export interface ChannelRecord {
  readonly id: string
  readonly guildId: string
  readonly type: number
  name: string
  topic: string | null
  readonly position: number
  parentId: string | null
  readonly overwrites: Overwrite[]
  rateLimitPerUser: number
  lastMessageId: string | null
  readonly messages: Map<string, MessageRecord>
  readonly thread?: ThreadRecord
}

export interface ThreadRecord {
  readonly ownerId: string
  readonly createdAt: number
  readonly starterMessageId?: string
  isArchived: boolean
  isLocked: boolean
  isInvitable: boolean
  autoArchiveMinutes: number
  archivedAt: number
  activeAt: number
  messageCount: number
  totalMessageSent: number
  readonly members: Map<string, { readonly joinedAt: number }>
}

export interface MessageRecord {
  readonly id: string
  readonly channelId: string
  readonly authorId: string
  readonly type: number
  readonly createdAt: number
  content: string
  editedAt?: number
  embeds: Embed[]
  components: Component[]
  attachments: AttachmentRecord[]
  flags: number
  mentions: Mentions
  readonly nonce?: string | number
  readonly reactions: Map<string, { readonly emoji: Emoji; readonly userIds: Set<string> }>
  readonly reference?: { readonly channelId: string; readonly messageId?: string }
  readonly interactionId?: string
  /** Only this user sees the message. */
  readonly visibleTo?: string
  threadId?: string
  isPinned: boolean
}

export interface Mentions {
  readonly userIds: readonly string[]
  readonly roleIds: readonly string[]
  readonly everyone: boolean
}

export interface Emoji {
  readonly id: string | null
  readonly name: string
}

/** Discord's JSON of an embed, as it was sent. */
export type Embed = {
  readonly title?: string
  readonly description?: string
  readonly url?: string
  readonly fields?: readonly { readonly name: string; readonly value: string; readonly inline?: boolean }[]
  readonly footer?: { readonly text: string }
  readonly author?: { readonly name: string }
  readonly [other: string]: unknown
}

/** Discord's JSON of a component, as it was sent. */
export type Component = {
  readonly type: number
  readonly id?: number
  readonly custom_id?: string
  readonly components?: readonly Component[]
  readonly component?: Component
  readonly accessory?: Component
  readonly label?: string
  readonly style?: number
  readonly disabled?: boolean
  readonly url?: string
  readonly content?: string
  readonly emoji?: { readonly id?: string | null; readonly name?: string }
  readonly options?: readonly SelectOption[]
  readonly placeholder?: string
  readonly min_values?: number
  readonly max_values?: number
  readonly min_length?: number
  readonly max_length?: number
  readonly required?: boolean
  readonly value?: string
  readonly [other: string]: unknown
}

export interface SelectOption {
  readonly label: string
  readonly value: string
  readonly description?: string
  readonly default?: boolean
}

export interface AttachmentRecord {
  readonly id: string
  readonly filename: string
  readonly size: number
  readonly contentType: string
  readonly url: string
  readonly description?: string
  readonly ephemeral?: boolean
}

export interface FileRecord {
  readonly filename: string
  readonly contentType: string
  readonly bytes: Uint8Array
}

export interface InteractionRecord {
  readonly id: string
  readonly token: string
  readonly type: number
  readonly botId: string
  readonly userId: string
  readonly guildId: string
  readonly channelId: string
  readonly createdAt: number
  readonly commandName?: string
  /** The message of the component that was used, or from which the modal was opened. */
  readonly sourceMessageId?: string
  /** The type of the callback; absent until the bot has answered. */
  callbackType?: number
  /** The message behind `@original`. */
  originalMessageId?: string
  modal?: Modal
  choices?: { readonly name: string; readonly value: string | number }[]
}

export interface Modal {
  readonly custom_id: string
  readonly title: string
  readonly components: readonly Component[]
}

export function createWorld(): World {
  return {
    users: new Map(),
    bots: new Map(),
    guilds: new Map(),
    channels: new Map(),
    interactions: new Map(),
    openModals: new Map(),
    files: new Map(),
    nonces: new Map(),
  }
}
