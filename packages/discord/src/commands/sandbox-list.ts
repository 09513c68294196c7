import type { SandboxRecord } from '@sandkasten/registry'
import { type Command, scopeOf } from './command.ts'
import { blockOrFile, said } from './reply.ts'

/** All sandboxes of the server. */
export const sandboxList: Command = {
  definition: { name: 'sandbox-list', description: 'List the sandboxes of this server.', options: [] },
  right: 'use',
  reply: 'private',
  async run(call, place) {
    const records = await place.threads.sandboxes(scopeOf(call, place))
    if (records.length === 0) return said('There are no sandboxes yet. Make one with /sandbox.')
    return blockOrFile('', tableOf(records, Date.now()), { name: 'sandboxes.txt' })
  },
}

export function tableOf(records: readonly SandboxRecord[], now: number): string {
  const head = ['NAME', 'PROVIDER', 'STATUS', 'LAST USED', 'THREADS']
  const rows = records.map((record) => [
    record.name,
    record.provider,
    record.unreachable ? 'unreachable' : record.status,
    ago(now - record.lastUsedAt.getTime()),
    String(record.threads.length),
  ])
  const widths = head.map((word, at) => Math.max(word.length, ...rows.map((row) => row[at]!.length)))
  return [head, ...rows]
    .map((row) =>
      row
        .map((cell, at) => cell.padEnd(widths[at]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

function ago(ms: number): string {
  const minutes = Math.max(0, Math.round(ms / 60_000))
  if (minutes < 1) return 'now'
  if (minutes < 90) return `${minutes} min ago`
  if (minutes < 48 * 60) return `${Math.round(minutes / 60)} h ago`
  return `${Math.round(minutes / 60 / 24)} days ago`
}
