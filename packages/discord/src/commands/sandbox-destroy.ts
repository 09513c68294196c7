import { plain } from '../show/escape.ts'
import { type Command, recordOf, sandboxOf, sandboxOption } from './command.ts'

/** Asks first, and names what depends on the sandbox. The button destroys it; see `controls`. */
export const sandboxDestroy: Command = {
  definition: {
    name: 'sandbox-destroy',
    description: 'Destroy a sandbox and its disk, and archive its threads.',
    options: [sandboxOption('The sandbox; default: the one of this thread')],
  },
  right: 'destroy',
  reply: 'private',
  target: (call) => call.text('sandbox'),
  async run(call, place) {
    const record = await recordOf(call, place, await sandboxOf(call, place))
    const threads = record.threads.map((id) => `<#${id}>`)
    const uses = record.uses.map(({ purpose }) => plain(purpose, 60))
    const lines = [
      `Destroy **${plain(record.name, 63)}** (${plain(record.provider, 40)}, ${record.status}) and its disk?`,
      threads.length > 0
        ? `-# Threads that will be archived: ${threads.slice(0, 20).join(' ')}${threads.length > 20 ? ' …' : ''}`
        : '-# No thread uses it.',
      ...(uses.length > 0 ? [`-# ▲ In use right now: ${uses.slice(0, 5).join(', ')}`] : []),
    ]
    return {
      content: lines.join('\n'),
      rows: [
        [
          { type: 'button', id: `destroy:${record.name}`, label: 'Destroy', style: 'danger' },
          { type: 'button', id: 'keep:', label: 'Keep', style: 'secondary' },
        ],
      ],
    }
  },
}
