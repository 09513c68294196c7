import { plain } from '../show/escape.ts'
import { type Command, recordOf, sandboxOption, threadOf } from './command.ts'
import { said } from './reply.ts'

/** The thread goes on in another sandbox. */
export const sandboxConnect: Command = {
  definition: {
    name: 'sandbox-connect',
    description: 'Connect this thread to another sandbox.',
    options: [sandboxOption('The sandbox', true)],
  },
  right: 'use',
  reply: 'public',
  target: (call) => call.text('sandbox'),
  async run(call, place) {
    const thread = await threadOf(call, place)
    const record = await recordOf(call, place, call.text('sandbox') ?? '')
    await place.threads.connect(thread.threadId, record.name, call.by)
    return said(`-# • This thread is connected to ${plain(record.name, 63)} (${plain(record.provider, 40)}).`)
  },
}
