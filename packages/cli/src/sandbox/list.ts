import type { SandboxRecord } from '@sandkasten/registry'
import { say } from '../errors.ts'
import { timeText } from '../format.ts'
import { waiting } from '../progress.ts'
import { print, table } from '../table.ts'
import { besideDueWork } from './due-work.ts'
import { interruptible } from './interrupt.ts'
import { openHere } from './open.ts'

export interface ListOptions {
  refresh?: boolean
  /** In seconds. */
  timeout?: number
  all?: boolean
  provider?: string
  json?: boolean
  iso?: boolean
}

export async function list(options: ListOptions): Promise<number> {
  await using opened = await openHere()
  const timeoutMs = Math.round((options.timeout ?? 10) * 1000)
  return await besideDueWork(opened.registry, async () => {
    const records = await interruptible((signal) =>
      waiting(
        'asking the providers',
        opened.sandboxes.list({
          provider: options.provider,
          destroyed: options.all,
          refresh: options.refresh || options.timeout !== undefined ? { timeoutMs } : undefined,
          signal,
        }),
      ),
    )
    if (records.length === 0 && !options.json) say('No sandboxes yet. Try: sandkasten sandbox create')
    else print(options.json, records, () => tableOf(records, options))
    return 0
  })
}

function tableOf(records: readonly SandboxRecord[], options: ListOptions): string {
  return table(
    [
      { title: 'NAME', min: 12 },
      { title: 'PROVIDER', min: 6, drop: 2 },
      'STATUS',
      { title: 'LAST USED', drop: 1 },
      { title: 'THREADS', drop: 3 },
    ],
    records.map((record) => [
      record.name,
      record.provider,
      statusOf(record),
      timeText(record.lastUsedAt.toISOString(), options),
      record.threads.length,
    ]),
  )
}

/** The sandbox of a provider that does not answer may be in any status. */
function statusOf({ status, unreachable }: SandboxRecord): string {
  return unreachable ? 'unreachable' : status
}
