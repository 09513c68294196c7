import { basename } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { type Marker, markerText } from '../messages/marker.ts'
import { bodyOf } from '../rest/messages.ts'
import { type RawChannel, type RawMessage, type REST, Routes, restOf, translated } from '../rest/rest.ts'
import { identityOf } from '../setup/identity.ts'
import { mostCharacters } from '../show/split.ts'

export interface SendOptions {
  readonly token: string
  /** A channel for a new thread, or a thread. */
  readonly channelId: string
  readonly prompt: string
  readonly marker: Omit<Marker, 'promptFile'>
  readonly files?: ReadonlyArray<{ readonly name: string; readonly bytes: Uint8Array }>
  readonly api?: string
}

export interface Sent {
  readonly rest: REST
  readonly userId: string
  readonly guildId: string
  readonly channelId: string
  readonly messageId: string
  readonly isThread: boolean
}

/** A thread’s types. */
export const threadTypes = new Set([10, 11, 12])

/** Posts the request as a message of the bot. The running bot does the work, and owns the thread. */
export async function send({
  token,
  channelId,
  prompt,
  marker,
  files = [],
  api,
}: SendOptions): Promise<Sent> {
  const rest = restOf(token, api)
  const { userId } = await identityOf(rest)
  try {
    const channel = (await rest.get(Routes.channel(channelId))) as RawChannel
    if (!channel.guild_id)
      throw new SandboxError('invalid_argument', 'This channel is not in a server.', {
        hint: 'Pass the id of a text channel or of a thread.',
      })
    const isLong = prompt.length > mostCharacters
    const promptFile = isLong ? 'prompt.md' : undefined
    const all = [
      ...(promptFile ? [{ name: promptFile, bytes: new TextEncoder().encode(prompt) }] : []),
      ...files.map(({ name, bytes }) => ({ name: basename(name), bytes })),
    ]
    const body = {
      ...bodyOf({
        content: isLong ? `${prompt.slice(0, 300).replace(/[\ud800-\udbff]$/, '')}…` : prompt,
        files: all,
      }),
      // The marker is in an embed, so embeds are not suppressed here.
      flags: 0,
      embeds: [{ footer: { text: markerText({ ...marker, promptFile }) } }],
      nonce: marker.id,
      enforce_nonce: true,
    }
    const { id } = (await rest.post(Routes.channelMessages(channelId), {
      body,
      files: all.map(({ name, bytes }) => ({ name, data: Buffer.from(bytes) })),
    })) as RawMessage
    const isThread = threadTypes.has(channel.type)
    return { rest, userId, guildId: channel.guild_id, channelId, messageId: id, isThread }
  } catch (error) {
    throw translated(error, 'sending the request')
  }
}

/** The address of a message or thread in Discord. */
export function linkOf({ guildId, channelId, messageId, isThread }: Sent): string {
  const place = isThread ? `${channelId}/${messageId}` : messageId
  return `https://discord.com/channels/${guildId}/${place}`
}
