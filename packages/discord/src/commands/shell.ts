import { plain } from '../show/escape.ts'
import { type Command, option, threadOf } from './command.ts'
import { blockOrFile, said } from './reply.ts'

/** One command in the sandbox of the thread. */
export const shell: Command = {
  definition: {
    name: 'shell',
    description: 'Run one shell command in the sandbox of this thread.',
    options: [option('command', 'Such as: npm test', { required: true, max_length: 4000 })],
  },
  right: 'use',
  reply: 'public',
  target: (call) => call.text('command')?.slice(0, 200),
  async run(call, place) {
    const thread = await threadOf(call, place)
    const command = call.text('command') ?? ''
    const { exitCode, output, isCut } = await place.threads.shell(thread.threadId, command, call.by)
    const head = `-# ${exitCode === 0 ? '•' : '✕'} ${plain(command, 200)} · exit code ${exitCode}${isCut ? ' · the middle is left out' : ''}`
    return output.trim() === '' ? said(head) : blockOrFile(head, output, { name: 'output.txt' })
  },
}
