import { plain } from '../show/escape.ts'
import { type Command, sandboxOf, sandboxOption, scopeOf } from './command.ts'
import { said } from './reply.ts'

/** Ends all processes and keeps the disk. The next message of a thread starts it again. */
export const sandboxStop: Command = {
  definition: {
    name: 'sandbox-stop',
    description: 'Stop a sandbox and keep its disk.',
    options: [sandboxOption('The sandbox; default: the one of this thread')],
  },
  right: 'use',
  reply: 'public',
  target: (call) => call.text('sandbox'),
  async run(call, place) {
    const name = await sandboxOf(call, place)
    const record = await place.threads.stop(scopeOf(call, place), name, call.by)
    return said(`-# • ${plain(record.name, 63)} is stopped.`)
  },
}
