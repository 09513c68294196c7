import { plain } from '../show/escape.ts'
import { type Command, sandboxOf, sandboxOption, scopeOf } from './command.ts'
import { said } from './reply.ts'

/** Saves the disk. */
export const sandboxSnapshot: Command = {
  definition: {
    name: 'sandbox-snapshot',
    description: 'Save the disk of a sandbox.',
    options: [sandboxOption('The sandbox; default: the one of this thread')],
  },
  right: 'use',
  reply: 'public',
  target: (call) => call.text('sandbox'),
  async run(call, place) {
    const name = await sandboxOf(call, place)
    const { snapshotId } = await place.threads.snapshot(scopeOf(call, place), name, call.by)
    return said(`-# • Snapshot of ${plain(name, 63)}: ${plain(snapshotId, 200)}`)
  },
}
