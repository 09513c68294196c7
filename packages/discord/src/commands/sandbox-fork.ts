import { plain } from '../show/escape.ts'
import { type Command, option, threadOf } from './command.ts'
import { said } from './reply.ts'
import { titleOf } from './sandbox.ts'

/** A new thread that goes on in a copy of the sandbox and of the agent’s session. */
export const sandboxFork: Command = {
  definition: {
    name: 'sandbox-fork',
    description: 'Continue in a new thread, with a copy of this thread’s sandbox.',
    options: [option('prompt', 'What the agent should do there', { max_length: 4000 })],
  },
  right: 'create',
  reply: 'public',
  async run(call, place) {
    const thread = await threadOf(call, place)
    const prompt = call.text('prompt')
    const title = titleOf(prompt ?? `Fork of ${thread.title}`)
    const starter = said(
      `**${plain(title, 100)}**\n-# • ${plain(call.by.name, 60)} · a copy of <#${thread.threadId}>`,
    )
    const { id } = await place.messages.send(thread.channelId, starter, { nonce: call.id })
    await place.startThread({
      messageId: id,
      channelId: thread.channelId,
      guildId: call.guildId,
      title,
      by: call.by,
      userId: call.by.id,
      sandbox: { fork: thread.threadId },
      model: thread.model,
      message: prompt === undefined ? undefined : { id: call.id, by: call.by, text: prompt },
    })
    return said(`-# • The copy continues in <#${id}>.`)
  },
}
