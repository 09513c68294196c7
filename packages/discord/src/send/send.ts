import { SandboxError } from '@sandkasten/sdk'
import type { ChatFile } from '@sandkasten/threads'
import { type Marker, markerText } from '../messages/marker.ts'
import { bodyOf, filesOf } from '../rest/messages.ts'
import { type RawChannel, type RawMessage, type REST, Routes, restOf, translated } from '../rest/rest.ts'
import { identityOf } from '../setup/identity.ts'
import { fileName } from '../show/answer.ts'
import { shortened } from '../show/escape.ts'
import { mostCharacters } from '../show/split.ts'

/** A channel or thread, seen with a bot’s token. */
export interface SendPlace {
  readonly rest: REST
  readonly appId: string
  readonly userId: string
  readonly guildId: string
  readonly channelId: string
  readonly isThread: boolean
}

export interface SendRequest {
  readonly prompt: string
  readonly marker: Omit<Marker, 'promptFile'>
  readonly files?: readonly ChatFile[]
}

export interface Sent extends SendPlace {
  readonly messageId: string
}

const threadTypes = new Set([10, 11, 12])

/** Throws `unauthenticated`, `forbidden` or `not_found` before anything is sent. */
export async function openPlace(
  token: string,
  channelId: string,
  { api }: { api?: string } = {},
): Promise<SendPlace> {
  if (!/^\d{15,21}$/.test(channelId))
    throw new SandboxError('invalid_argument', 'The id of a channel is a number of 17 to 20 digits.', {
      hint: 'In Discord, switch on developer mode, and choose “Copy Channel ID” on the channel.',
    })
  const rest = restOf(token, api)
  const { appId, userId } = await identityOf(rest)
  try {
    const { guild_id: guildId, type } = (await rest.get(Routes.channel(channelId))) as RawChannel
    if (guildId !== undefined)
      return { rest, appId, userId, guildId, channelId, isThread: threadTypes.has(type) }
  } catch (error) {
    throw translated(error, 'looking for the channel')
  }
  throw new SandboxError('invalid_argument', 'This channel is not in a server.', {
    hint: 'Pass the id of a text channel or of a thread.',
  })
}

/** Posts the request as a message of the bot. The running bot does the work, and owns the thread. */
export async function send(place: SendPlace, { prompt, marker, files = [] }: SendRequest): Promise<Sent> {
  const isLong = prompt.length > mostCharacters
  const promptFile = isLong ? 'prompt.md' : undefined
  const all = [
    ...(isLong ? [{ name: 'prompt.md', bytes: new TextEncoder().encode(prompt) }] : []),
    ...files.map(({ name, bytes }) => ({ name: fileName(name), bytes })),
  ]
  const post = { content: isLong ? shortened(prompt, 300) : prompt, files: all }
  const body = {
    ...bodyOf(post),
    // The marker is in an embed, so embeds are not suppressed here.
    flags: 0,
    embeds: [{ footer: { text: markerText({ ...marker, promptFile }) } }],
    nonce: marker.id,
    enforce_nonce: true,
  }
  try {
    const route = Routes.channelMessages(place.channelId)
    const { id } = (await place.rest.post(route, { body, files: filesOf(post) })) as RawMessage
    return { ...place, messageId: id }
  } catch (error) {
    throw translated(error, 'sending the request')
  }
}

/** The address of a message or thread in Discord. */
export function linkOf({ guildId, channelId, messageId, isThread }: Sent): string {
  const place = isThread ? `${channelId}/${messageId}` : messageId
  return `https://discord.com/channels/${guildId}/${place}`
}
