import type { Context } from './context.ts'
import type { Settings } from './spec/rights.ts'
import { toJson } from './store/index.ts'

const none: Settings = { allowed: {} }

/** Settings of the channel over those of the guild. */
export async function readSettings(
  { store }: Pick<Context, 'store'>,
  guildId: string,
  channelId?: string,
): Promise<Settings> {
  const guild = parse(await store.settings.get(guildId))
  if (channelId === undefined) return guild
  const channel = parse(await store.settings.get(guildId, channelId))
  return { ...guild, ...channel, allowed: { ...guild.allowed, ...channel.allowed } }
}

export function settingsText({ allowed, ...others }: Settings): string {
  return toJson({ ...others, allowed })
}

/**
 * The provider of new sandboxes in the channel: what is set for the channel, then for its guild, then the default of the
 * registry. Undefined: the registry detects it.
 */
export async function getProviderForChannel(
  context: Pick<Context, 'store' | 'registry' | 'sandboxAppId'>,
  channelId: string,
  guildId?: string,
): Promise<string | undefined> {
  const guild = guildId ?? (await context.store.settings.guildOf(channelId)) ?? ''
  const { provider } = await readSettings(context, guild, channelId)
  if (provider !== undefined) return provider
  const configured = await context.registry.credentials.list({
    appId: context.sandboxAppId,
    guildId: guild,
    channelId,
  })
  return configured.find(({ isDefault }) => isDefault)?.provider
}

function parse(text: string | undefined): Settings {
  return text === undefined ? none : { ...none, ...(JSON.parse(text) as Partial<Settings>) }
}
