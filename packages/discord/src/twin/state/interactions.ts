import type { Core } from '../core.ts'
import { channelPayload, interactionMemberPayload, threadPayloadFor } from './payloads.ts'
import { channelPermissions } from './permissions.ts'
import type { BotRecord, ChannelRecord, InteractionRecord } from './world.ts'

export const InteractionType = { command: 2, component: 3, autocomplete: 4, modal: 5 } as const

export const CallbackType = {
  message: 4,
  deferredMessage: 5,
  deferredUpdate: 6,
  update: 7,
  autocomplete: 8,
  modal: 9,
} as const

export interface NewInteraction {
  readonly type: number
  readonly bot: BotRecord
  readonly userId: string
  readonly channel: ChannelRecord
  readonly data: object
  readonly commandName?: string
  readonly sourceMessageId?: string
  /** The message of the component, as the event carries it. */
  readonly message?: object
}

/** A user uses a command, component or modal: the bot receives INTERACTION_CREATE. */
export function createInteraction(core: Core, input: NewInteraction): InteractionRecord {
  const { world } = core
  const { bot, channel, userId } = input
  const guild = world.guilds.get(channel.guildId)!
  const id = core.newId()
  const interaction: InteractionRecord = {
    id,
    token: Buffer.from(`interaction:${id}:${crypto.randomUUID()}`).toString('base64url'),
    type: input.type,
    botId: bot.id,
    userId,
    guildId: guild.id,
    channelId: channel.id,
    createdAt: core.clock.now(),
    commandName: input.commandName,
    sourceMessageId: input.sourceMessageId,
  }
  world.interactions.set(interaction.id, interaction)
  const base = channel.thread ? threadPayloadFor(channel, bot.id) : channelPayload(channel)
  const payload = {
    id: interaction.id,
    application_id: bot.id,
    type: input.type,
    token: interaction.token,
    version: 1,
    guild_id: guild.id,
    guild: { id: guild.id, locale: 'en-US', features: [] },
    guild_locale: 'en-US',
    locale: 'en-US',
    channel_id: channel.id,
    channel: { ...base, permissions: String(channelPermissions(world, channel, userId)) },
    member: interactionMemberPayload(world, channel, userId),
    app_permissions: String(channelPermissions(world, channel, bot.id)),
    attachment_size_limit: core.limits.fileBytes,
    authorizing_integration_owners: { 0: guild.id },
    context: 0,
    entitlements: [],
    entitlement_sku_ids: [],
    data: input.data,
    ...(input.message && { message: input.message }),
  }
  core.publish({
    name: 'INTERACTION_CREATE',
    guildId: guild.id,
    intent: 0,
    botId: bot.id,
    data: () => payload,
  })
  // Wakes the user, who sees that the application did not respond.
  core.clock.schedule(interaction.createdAt + core.limits.acknowledgeMs + 1, () =>
    core.changes.emit('change', channel.id),
  )
  return interaction
}

/** As in Discord, a token contains the id of its interaction. */
export function findByToken(core: Core, token: string): InteractionRecord | undefined {
  const id = Buffer.from(token, 'base64url').toString().split(':')[1]
  const interaction = core.world.interactions.get(id ?? '')
  return interaction?.token === token ? interaction : undefined
}

export function isUnanswered(core: Core, interaction: InteractionRecord): boolean {
  const ageMs = core.clock.now() - interaction.createdAt
  return interaction.callbackType === undefined && ageMs > core.limits.acknowledgeMs
}

export function isExpired(core: Core, interaction: InteractionRecord): boolean {
  return core.clock.now() - interaction.createdAt > core.limits.interactionTokenMs
}
