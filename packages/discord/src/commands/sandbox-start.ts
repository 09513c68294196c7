import { plain } from '../show/escape.ts'
import { type Command, sandboxOf, sandboxOption, scopeOf } from './command.ts'
import { said } from './reply.ts'

/** Starts a stopped sandbox, or restores it from its last snapshot. */
export const sandboxStart: Command = {
  definition: {
    name: 'sandbox-start',
    description: 'Start a stopped sandbox.',
    options: [sandboxOption('The sandbox; default: the one of this thread')],
  },
  right: 'use',
  reply: 'public',
  target: (call) => call.text('sandbox'),
  async run(call, place) {
    const name = await sandboxOf(call, place)
    const record = await place.threads.startSandbox(scopeOf(call, place), name, call.by)
    return said(`-# • ${plain(record.name, 63)} is running.`)
  },
}
