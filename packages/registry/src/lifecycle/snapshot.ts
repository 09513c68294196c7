import { SandboxError, type SandboxProvider, supports } from '@sandkasten/sdk'
import type { InterruptingOptions } from '../types.ts'
import { request } from './deadline.ts'
import { seenNetwork } from './network.ts'
import { noting, question, type Run, tell } from './run.ts'
import { check, goneError, markGone, settle } from './settle.ts'
import { deleteAutomatic, snapshotName, snapshotOf } from './snapshots.ts'
import { type Observed, settled } from './truth.ts'
import { refuseWhileUsed } from './uses.ts'

export interface SnapshotUnderLease extends Pick<InterruptingOptions, 'force' | 'threadId'> {
  /** The caller's own name for it. */
  readonly snapshotName?: string
  /** Made by the registry: it is deleted when a newer snapshot replaces it, and with the sandbox. */
  readonly auto?: boolean
}

/** Saves the disk, under the lease, as the snapshot that a later restore uses. */
export async function snapshot(run: Run, options: SnapshotUnderLease = {}): Promise<{ snapshotId: string }> {
  return noting(run, async () => {
    const { context, lease } = run
    const provider = await context.providers.of(lease.row)
    if (!supports(provider, 'snapshot')) throw cannotSave(provider)
    await settle(run)
    const { provider_sandbox_id: sandboxId, name } = lease.row
    if (sandboxId === null) throw nothingToSave(run)
    const observed = await settled(question(run, provider, sandboxId))
    if (observed.status === 'gone') {
      await markGone(run)
      throw nothingToSave(run)
    }
    const interrupts = observed.status === 'running' && snapshotInterrupts(provider)
    if (interrupts) await refuseWhileUsed(run, options, `At ${provider.name}, saving it ends their programs.`)
    tell(run, { step: 'snapshot', message: `saving “${name}” at ${provider.name}` })
    // A restore gives the network to the snapshot again.
    await lease.update(seenNetwork(lease.row, observed.handle))
    const snapshotId = await save(run, provider, observed, options)
    if (interrupts) await countInterruption(run)
    return { snapshotId }
  })
}

/** Whether a snapshot ends the sandbox's programs. */
export function snapshotInterrupts(provider: SandboxProvider): boolean {
  return provider.snapshotInterrupts
}

async function save(
  run: Run,
  provider: SandboxProvider,
  { handle }: Exclude<Observed, { status: 'gone' }>,
  { snapshotName: given, auto = false }: SnapshotUnderLease,
): Promise<string> {
  const { context, lease } = run
  const { changeMs: ms, cleanUpMs: graceMs } = context.timeouts
  const limit = { ms, graceMs, signal: lease.signal, what: `Saving “${lease.row.name}” at ${provider.name}` }
  const name = given ?? snapshotName(lease.row, { auto })
  let failure: unknown
  const snapshotId = await request(limit, async (signal) => {
    const made = await handle.snapshot({ name, signal })
    return made.snapshotId
  }).catch((error: unknown) => {
    // Saved, but not running again: keep the snapshot, and report the failure.
    failure = error
    const made = snapshotOf(error)
    if (made === undefined) throw error
    return made
  })
  const now = context.now()
  // Snapshots of a caller's stay; the row forgets them.
  const before = lease.row.snapshot_auto === 1
  await deleteAfter(run, provider, { snapshotId, at: now, auto, replaced: before })
  if (failure !== undefined) throw failure
  return snapshotId
}

async function deleteAfter(
  run: Run,
  provider: SandboxProvider,
  { snapshotId, at, auto, replaced }: { snapshotId: string; at: number; auto: boolean; replaced: boolean },
): Promise<void> {
  const { lease } = run
  const before = lease.row
  await lease.update({
    snapshot_id: snapshotId,
    snapshot_at: at,
    snapshot_auto: auto ? 1 : 0,
    last_checked_at: at,
    error_message: null,
  })
  if (!replaced) return
  // The new snapshot counts. A leftover automatic one is deleted with the next snapshot, or with the sandbox.
  await deleteAutomatic({ ...run, lease: { ...lease, row: before } }, provider, snapshotId).catch(() => {})
}

/** Its programs have ended: whether the provider started it again or not, its handles are stale. */
async function countInterruption(run: Run): Promise<void> {
  const { incarnation } = run.lease.row
  const row = await check(run)
  if (row.status === 'running') await run.lease.update({ incarnation: incarnation + 1, base_url: null })
}

function nothingToSave({ lease: { row } }: Run): SandboxError {
  if (row.snapshot_id === null) return goneError(row)
  return new SandboxError(
    'not_running',
    `“${row.name}” no longer exists at ${row.provider}; it has only its last snapshot.`,
    {
      hint: 'Start it first: that restores the snapshot.',
    },
  )
}

function cannotSave({ name, capabilities }: SandboxProvider): SandboxError {
  const other =
    capabilities.stop === undefined ? 'choose a provider that has snapshots' : 'stop it: that keeps its disk'
  return new SandboxError('unsupported', `The provider “${name}” has no snapshots.`, {
    provider: name,
    details: { ability: 'snapshot' },
    hint: `Instead, ${other}.`,
  })
}
