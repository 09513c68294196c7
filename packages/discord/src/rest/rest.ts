import { SandboxError } from '@sandkasten/sdk'
import { DiscordAPIError, HTTPError, REST, Routes } from 'discord.js'

/** A message as Discord returns it: the parts that are used here. */
export interface RawMessage {
  readonly id: string
  readonly channel_id: string
  readonly type: number
  readonly content: string
  readonly nonce?: string | number
  readonly flags?: number
  readonly author: { readonly id: string; readonly username: string; readonly bot?: boolean }
  readonly attachments: ReadonlyArray<{
    readonly id: string
    readonly filename: string
    readonly size: number
    readonly url: string
  }>
  readonly embeds: ReadonlyArray<{ readonly footer?: { readonly text: string } }>
  readonly components?: readonly unknown[]
  readonly message_reference?: { readonly message_id?: string }
  readonly mention_everyone?: boolean
  readonly webhook_id?: string
  readonly interaction_metadata?: { readonly id: string }
}

export interface RawChannel {
  readonly id: string
  readonly type: number
  readonly guild_id?: string
  readonly parent_id?: string | null
  readonly name?: string
  readonly owner_id?: string
  readonly last_message_id?: string | null
  readonly thread_metadata?: { readonly archived: boolean; readonly locked?: boolean }
}

export interface RawFile {
  readonly name: string
  readonly data: Uint8Array
}

/** Discord’s codes that are handled in their own way. */
export const codes = {
  unknownChannel: 10003,
  unknownMessage: 10008,
  unknownInteraction: 10062,
  alreadyAcknowledged: 40060,
  missingAccess: 50001,
  missingPermissions: 50013,
  archivedThread: 50083,
  threadExists: 160004,
} as const

/** A client for Discord’s HTTP API. It waits for rate limits, as the headers of Discord say. */
export function restOf(token: string, api?: string): REST {
  return new REST({ version: '10', ...(api ? { api } : {}) }).setToken(token)
}

export function codeOf(error: unknown): number | undefined {
  return error instanceof DiscordAPIError && typeof error.code === 'number' ? error.code : undefined
}

/** Discord fails or cannot be reached; later it may work. */
export function isOutage(error: unknown): boolean {
  if (SandboxError.is(error)) return error.code === 'unavailable'
  return error instanceof DiscordAPIError || error instanceof HTTPError ? error.status >= 500 : false
}

/** The failure in our words. Errors of Discord contain no token, and their request’s body is left out. */
export function translated(error: unknown, doing: string): SandboxError {
  if (SandboxError.is(error)) return error
  if (error instanceof DiscordAPIError || error instanceof HTTPError) {
    const { status } = error
    const details = { status, code: error instanceof DiscordAPIError ? error.code : undefined }
    if (status === 401)
      return new SandboxError('unauthenticated', `Discord refused the bot’s token while ${doing}.`, {
        hint: 'Make a new token in the developer portal, and run: sandkasten discord setup.',
        details,
      })
    if (status === 403)
      return new SandboxError('forbidden', `The bot may not do this in Discord: ${doing}.`, {
        hint: 'Invite it again with the link of sandkasten discord setup, and check the channel’s permissions.',
        details,
      })
    if (status === 404)
      return new SandboxError('not_found', `Discord does not have it any more: ${doing}.`, { details })
    if (status < 500)
      return new SandboxError('provider_error', `Discord did not accept it: ${doing} (${error.message}).`, {
        details,
        retryable: false,
      })
    return new SandboxError('unavailable', `Discord failed with HTTP ${status} while ${doing}.`, { details })
  }
  const reason = error instanceof Error ? error.message : String(error)
  return new SandboxError('unavailable', `Discord could not be reached while ${doing}: ${reason}`, {
    cause: error,
  })
}

export { type REST, Routes }
