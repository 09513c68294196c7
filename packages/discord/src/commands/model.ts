import { plain } from '../show/escape.ts'
import { type Command, option, threadOf } from './command.ts'
import { said } from './reply.ts'

/** The model for the next messages of the thread. */
export const model: Command = {
  definition: {
    name: 'model',
    description: 'Show or change the model of this thread.',
    options: [
      option('model', 'Such as anthropic/claude-sonnet-4-5, or default', {
        autocomplete: true,
        max_length: 100,
      }),
    ],
  },
  right: 'use',
  reply: 'public',
  target: (call) => call.text('model'),
  async run(call, place) {
    const thread = await threadOf(call, place)
    const wanted = call.text('model')
    if (wanted === undefined)
      return said(`-# • The model of this thread is ${plain(thread.model ?? 'the agent’s default', 100)}.`)
    await place.threads.setModel(thread.threadId, wanted === 'default' ? undefined : wanted, call.by)
    return said(
      `-# • The next messages use ${plain(wanted === 'default' ? 'the agent’s default model' : wanted, 100)}.`,
    )
  },
}
