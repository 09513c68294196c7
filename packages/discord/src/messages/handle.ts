import { SandboxError } from '@sandkasten/sdk'
import { allowed } from '@sandkasten/threads'
import type { Place } from '../commands/command.ts'
import { failure } from '../commands/reply.ts'
import { titleOf } from '../commands/sandbox.ts'
import { attachmentsOf, type Incoming, textOf } from './incoming.ts'
import { type Marker, markerOf } from './marker.ts'

/** A prompt in a file. */
const mostPromptBytes = 64 * 1024

/** Hands a message to the engine, if it is for the bot. Safe to repeat: the message’s id makes it one message. */
export async function handleMessage(message: Incoming, place: Place): Promise<void> {
  if (message.author.id === place.userId) {
    const marker = markerOf(message.footer)
    if (marker) await handleMarker(message, marker, place)
    return
  }
  if (message.isProgram || !message.isText || message.mentionsEveryone || message.parentId === undefined)
    return
  if (message.text.trim() === '' && message.files.length === 0) return
  const { threads } = place
  const thread = await threads.get(message.channelId)
  if (!thread || thread.state === 'ended') return
  const settings = await threads.settings({ guildId: message.guildId, channelId: message.parentId })
  const member = await message.member()
  if (!member || !allowed(settings, member, 'use')) {
    await threads.audit({ ...entryOf(message), action: 'say', result: 'forbidden' })
    await place.messages.react(message.channelId, message.id, '🚫')
    return
  }
  try {
    await say(message, message.text, place)
  } catch (error) {
    const post = failure(error)
    if (place.refusals.explains(message.channelId, post.content))
      await place.messages.send(message.channelId, post, { nonce: message.id, replyTo: message.id })
    else await place.messages.react(message.channelId, message.id, '❌')
    if (!SandboxError.is(error)) throw error
  }
}

async function say(message: Incoming, text: string, { threads }: Place): Promise<void> {
  const { id, channelId, author } = message
  await threads.say({ id, threadId: channelId, by: author, text, attachments: attachmentsOf(message) })
}

/** A request of `sandkasten send`: in a thread a message, in a channel a new thread. */
async function handleMarker(message: Incoming, marker: Marker, place: Place): Promise<void> {
  try {
    const files = attachmentsOf(message)
    const promptFile = files.find(({ name }) => name === marker.promptFile)
    const text = promptFile ? await textOf(promptFile, mostPromptBytes) : message.text
    const attachments = files.filter((file) => file !== promptFile)
    const by = { id: 'send', name: marker.by }
    if (message.parentId !== undefined) {
      if (marker.model !== undefined) await place.threads.setModel(message.channelId, marker.model, by)
      const said = await place.threads.say({
        id: message.id,
        threadId: message.channelId,
        by,
        text,
        attachments,
      })
      if (said === 'unknown-thread')
        throw new SandboxError('not_found', 'This is not a thread with a sandbox.')
      return
    }
    if (await place.threads.get(message.id)) return
    const scope = { appId: place.appId, guildId: message.guildId, channelId: message.channelId }
    // A wrong name never creates a sandbox.
    if (marker.sandbox !== undefined) await place.registry.in(scope).get(marker.sandbox)
    else if (!marker.create)
      throw new SandboxError('invalid_argument', 'The request names no sandbox.', {
        hint: 'Use --sandbox NAME or --new-sandbox.',
      })
    const provider =
      marker.create?.provider ??
      (await place.threads.getProviderForChannel(message.channelId, message.guildId))
    await place.startThread({
      messageId: message.id,
      channelId: message.channelId,
      guildId: message.guildId,
      title: titleOf(text),
      by,
      sandbox:
        marker.sandbox === undefined
          ? { create: { ...marker.create, provider } }
          : { existing: marker.sandbox },
      model: marker.model,
      message: { id: message.id, by, text, attachments },
    })
  } catch (error) {
    // `sandkasten send --wait` finds this reply.
    await place.messages.send(message.channelId, failure(error), { nonce: message.id, replyTo: message.id })
    if (!SandboxError.is(error)) throw error
  }
}

function entryOf({ author, guildId, parentId, channelId }: Incoming) {
  return { by: author, guildId, channelId: parentId, threadId: channelId }
}
