import { type Command, threadOf } from './command.ts'
import { blockOrFile, said } from './reply.ts'

/** What the thread has changed in its sandbox. */
export const diff: Command = {
  definition: { name: 'diff', description: 'Show what this thread has changed.', options: [] },
  right: 'use',
  reply: 'public',
  async run(call, place) {
    const thread = await threadOf(call, place)
    const patch = await place.threads.diff(thread.threadId, call.by)
    if (patch.trim() === '') return said('-# • Nothing has changed.')
    return blockOrFile('', patch, { language: 'diff', name: 'changes.diff' })
  },
}
