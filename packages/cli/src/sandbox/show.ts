import type { SandboxRecord, Use } from '@sandkasten/registry'
import { durationText, timeText } from '../format.ts'
import { facts, print } from '../table.ts'
import { openHere } from './open.ts'

export interface ShowOptions {
  json?: boolean
  iso?: boolean
}

export async function show(name: string, options: ShowOptions): Promise<number> {
  await using opened = await openHere()
  const record = await opened.sandboxes.get(name)
  print(options.json, record, () => facts(pairsOf(record, options)))
  return 0
}

function pairsOf(record: SandboxRecord, options: ShowOptions): Array<readonly [string, string | undefined]> {
  const time = (date: Date | undefined) => timeText(date?.toISOString(), options)
  const all: Array<readonly [string, string | undefined]> = [
    ['name', record.name],
    ['description', record.label],
    ['status', record.status],
    ['problem', record.errorMessage],
    ['provider', record.provider],
    ['id there', record.providerSandboxId],
    ['image', record.image],
    ['repository', record.repoUrl],
    ['folder', record.directory],
    ['ports', record.ports.join(', ')],
    ['address', record.baseUrl],
    ['network', typeof record.network === 'object' ? 'a policy' : record.network],
    [
      'snapshot',
      record.snapshotId && `${record.snapshotId}, ${time(record.snapshotAt) ?? 'at an unknown time'}`,
    ],
    ['starts', String(record.incarnation)],
    ['ends', time(record.expiresAt)],
    [
      'stops idle',
      record.idleStopMs === undefined ? undefined : `after ${durationText(record.idleStopMs / 1000)}`,
    ],
    ['threads', record.threads.join(', ')],
    ['in use by', record.uses.map((use) => useText(use, options)).join('; ')],
    ['last used', time(record.lastUsedAt)],
    ['last checked', time(record.lastCheckedAt)],
    ['created', time(record.createdAt)],
  ]
  return all.filter(([, value]) => value !== undefined && value !== '')
}

/** `thread 123 (agent, 3 min ago)`, `process 4711 (exec npm, now)`. */
export function useText({ threadId, purpose, since, pid }: Use, options: ShowOptions = {}): string {
  const user =
    threadId !== undefined ? `thread ${threadId}` : pid !== undefined ? `process ${pid}` : 'another machine'
  return `${user} (${purpose}, ${timeText(since.toISOString(), options)})`
}
