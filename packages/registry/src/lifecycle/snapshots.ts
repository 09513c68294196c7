import { SandboxError, type SandboxProvider, supports } from '@sandkasten/sdk'
import type { SandboxRow } from '../store/index.ts'
import { request } from './deadline.ts'
import type { Run } from './run.ts'

/** The name at the provider of a snapshot that has no name of the caller's. It tells whose snapshot it is. */
export function snapshotName(row: SandboxRow, { auto }: { auto: boolean }): string {
  return `${prefix(row, auto)}${row.lease_token}`
}

function prefix({ id }: SandboxRow, auto: boolean): string {
  return `sandkasten-${id}-${auto ? 'auto-' : ''}`
}

/**
 * Deletes the automatic snapshots of the row but for `keep`, also those that a process made and could not record before
 * it died. Snapshots that a caller made are never deleted.
 */
export async function deleteAutomatic(
  run: Run,
  provider: SandboxProvider,
  keep: string | null,
): Promise<void> {
  if (!supports(provider, 'snapshot')) return
  const { context, lease } = run
  const { row } = lease
  const limit = {
    ms: context.timeouts.cleanUpMs,
    signal: undefined,
    what: `Deleting old snapshots of “${row.name}”`,
  }
  await request(limit, async (signal) => {
    const all = await provider.listSnapshots({ signal })
    const old = new Set(
      all.filter(({ name }) => name?.startsWith(prefix(row, true))).map(({ snapshotId }) => snapshotId),
    )
    if (row.snapshot_auto === 1 && row.snapshot_id !== null) old.add(row.snapshot_id)
    if (keep !== null) old.delete(keep)
    for (const snapshotId of old) await provider.deleteSnapshot(snapshotId, { signal })
  })
}

/** Records a snapshot that a process made before it died. Without names at the provider, there is nothing to find. */
export async function adoptSnapshot(run: Run): Promise<void> {
  const { context, lease } = run
  const provider = await context.providers.of(lease.row)
  if (!supports(provider, 'snapshot')) return
  const limit = {
    ms: context.timeouts.lookMs,
    signal: lease.signal,
    what: `Asking ${provider.name} for snapshots`,
  }
  const all = await request(limit, (signal) => provider.listSnapshots({ signal }))
  const { row } = lease
  const unknown = all
    .flatMap((info) => [false, true].map((auto) => ({ info, auto, token: tokenOf(row, info.name, auto) })))
    .filter(({ info, token }) => {
      // The dead holder's lease came right before the present one, unless an earlier recovery failed.
      const isNewer = (info.createdAt?.getTime() ?? 0) > (row.snapshot_at ?? 0)
      return info.snapshotId !== row.snapshot_id && (token === row.lease_token - 1 || (token > 0 && isNewer))
    })
    .sort((a, b) => b.token - a.token)
  const [newest] = unknown
  if (!newest) return
  await lease.update({
    snapshot_id: newest.info.snapshotId,
    snapshot_at: newest.info.createdAt?.getTime() ?? context.now(),
    snapshot_auto: newest.auto ? 1 : 0,
  })
}

/** The lease token in the name of a snapshot of the row; 0 if it is not one. */
function tokenOf(row: SandboxRow, name: string | undefined, auto: boolean): number {
  const start = prefix(row, auto)
  return name?.startsWith(start) && /^\d+$/.test(name.slice(start.length))
    ? Number(name.slice(start.length))
    : 0
}

/** The snapshot of a call that failed only afterwards, if its error names it. */
export function snapshotOf(error: unknown): string | undefined {
  const id = SandboxError.is(error) ? error.details.snapshotId : undefined
  return typeof id === 'string' ? id : undefined
}
