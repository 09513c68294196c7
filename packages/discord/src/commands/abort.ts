import { type Command, threadOf } from './command.ts'
import { said } from './reply.ts'

/** Ends the present answer and empties the queue. */
export const abort: Command = {
  definition: {
    name: 'abort',
    description: 'Stop the agent of this thread and empty its queue.',
    options: [],
  },
  right: 'use',
  reply: 'private',
  async run(call, place) {
    const thread = await threadOf(call, place)
    const wasWorking = await place.threads.abort(thread.threadId, call.by)
    return said(wasWorking ? '-# ■ Stopped.' : '-# • Nothing was at work.')
  },
}
