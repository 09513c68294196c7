import { type Command, option, threadOf } from './command.ts'
import { said } from './reply.ts'

/** A link to a port of the sandbox. Only the user sees it, because it may be signed. */
export const url: Command = {
  definition: {
    name: 'url',
    description: 'Get a link to a port of the sandbox of this thread.',
    options: [option('port', 'Such as 3000', { type: 4, required: true, min_value: 1, max_value: 65_535 })],
  },
  right: 'use',
  reply: 'private',
  target: (call) => String(call.whole('port') ?? ''),
  async run(call, place) {
    const thread = await threadOf(call, place)
    const link = await place.threads.url(thread.threadId, call.whole('port') ?? 0, call.by)
    return said(`<${link.replace(/[\s<>]/g, encodeURIComponent)}>`)
  },
}
