import type { SandboxRow } from '../store/index.ts'
import { aheadMs } from '../store/index.ts'
import type { SandboxSettings } from '../types.ts'

/**
 * What a row promises, and when. This is the only place that computes due times.
 *
 * - `clean`: remove the sandbox of a failed create, at once.
 * - `save`: save the disk, some time before the provider ends the sandbox.
 * - `end`: learn what became of the sandbox, after the provider has ended it.
 * - `idle`: stop the sandbox, `idle_stop_ms` after its last use.
 * - `look`: ask again, some time after the provider reported an unknown status.
 */
export interface DuePromise {
  readonly what: 'clean' | 'save' | 'end' | 'idle' | 'look'
  readonly at: number
}

type DueColumns = Pick<
  SandboxRow,
  | 'live'
  | 'status'
  | 'incarnation'
  | 'provider_sandbox_id'
  | 'expires_at'
  | 'snapshot_at'
  | 'idle_stop_ms'
  | 'last_used_at'
  | 'last_checked_at'
  | 'updated_at'
  | 'settings'
>

/** When a process should look at this sandbox next; null: never. */
export function dueAt(row: DueColumns, can: { snapshot: boolean } = { snapshot: true }): number | null {
  const times = duePromises(row, can).map(({ at }) => at)
  return times.length === 0 ? null : Math.min(...times)
}

export function duePromises(row: DueColumns, can: { snapshot: boolean } = { snapshot: true }): DuePromise[] {
  if (row.live !== 1 || row.provider_sandbox_id === null) return []
  if (isLeftover(row)) return [{ what: 'clean', at: row.updated_at }]
  if (row.status === 'unknown')
    return [{ what: 'look', at: (row.last_checked_at ?? row.updated_at) + lookAgainMs }]
  const promises: DuePromise[] = []
  if (row.status !== 'running') return promises
  if (row.expires_at !== null)
    promises.push(
      can.snapshot && !isSaved(row)
        ? { what: 'save', at: row.expires_at - leadMs(row) }
        : { what: 'end', at: row.expires_at + endedMs },
    )
  if (row.idle_stop_ms !== null) promises.push({ what: 'idle', at: row.last_used_at + row.idle_stop_ms })
  return promises
}

/** A sandbox whose create failed and could not remove it. One that ran may hold data, so it is never a leftover. */
export function isLeftover(row: Pick<SandboxRow, 'status' | 'incarnation' | 'provider_sandbox_id'>): boolean {
  return row.status === 'failed' && row.incarnation === 0 && row.provider_sandbox_id !== null
}

/**
 * How long before its end the disk is saved. Less than what a hold leaves: that extends the sandbox when it has five
 * minutes left, so a sandbox in use gets here only if it cannot be extended.
 */
export function leadMs(row: Pick<SandboxRow, 'settings'>): number {
  const { lifetimeMs } = JSON.parse(row.settings) as SandboxSettings
  return lifetimeMs === undefined ? mostLeadMs : Math.min(mostLeadMs, Math.floor(lifetimeMs / 4))
}

/** Whether the row's times are ahead of the clock by more than clocks of machines differ. */
export function isAhead(row: Pick<SandboxRow, 'last_used_at' | 'last_checked_at'>, now: number): boolean {
  return Math.max(row.last_used_at, row.last_checked_at ?? 0) > now + aheadMs
}

/** One snapshot for each end. Providers report the same end slightly differently each time. */
function isSaved(row: Pick<SandboxRow, 'expires_at' | 'snapshot_at' | 'settings'>): boolean {
  return row.snapshot_at !== null && row.snapshot_at >= row.expires_at! - leadMs(row) - slackMs
}

const mostLeadMs = 2 * 60_000
const endedMs = 2_000
const slackMs = 5_000
const lookAgainMs = 5 * 60_000
