import { SandboxError } from '@sandkasten/sdk'
import { type REST, Routes, translated } from '../rest/rest.ts'

export interface Identity {
  readonly appId: string
  /** The bot’s user. */
  readonly userId: string
  readonly name: string
  /** Whether the bot may read messages. Undefined: Discord does not say. */
  readonly canReadMessages?: boolean
}

/** Both kinds: of a verified bot, and of one in fewer than 100 servers. */
const messageContentFlags = (1 << 18) | (1 << 19)

/** The bot that the token belongs to. Throws `unauthenticated` if Discord does not know it. */
export async function identityOf(rest: REST): Promise<Identity> {
  try {
    const [app, user] = (await Promise.all([
      rest.get(Routes.currentApplication()),
      rest.get(Routes.user()),
    ])) as [{ id: string; flags?: number }, { id: string; username: string }]
    const { id: appId, flags } = app
    return {
      appId,
      userId: user.id,
      name: user.username,
      canReadMessages: flags === undefined ? undefined : (flags & messageContentFlags) !== 0,
    }
  } catch (error) {
    throw translated(error, 'checking the bot’s token')
  }
}

/** A token has three parts. The check finds a pasted secret of another kind, before it is sent anywhere. */
export function checkToken(text: string): string {
  const token = text.trim().replace(/^Bot /, '')
  if (/^[\w-]{18,}\.[\w-]{4,}\.[\w-]{20,}$/.test(token)) return token
  throw new SandboxError('invalid_argument', 'This is not a token of a Discord bot.', {
    hint: 'Copy it from the developer portal, under Bot → Token.',
  })
}
