import { SandboxError } from '@sandkasten/sdk'
import type { Context } from '../context.ts'
import type { Lease } from '../leases/index.ts'
import type { Operation, SandboxRow } from '../store/index.ts'
import { finishDestroy } from './destroy.ts'
import { removeLeftovers } from './leftovers.ts'
import { recoverNetwork, seenNetwork } from './network.ts'
import { isExplained, noting, question, type Run, retryMs, tell } from './run.ts'
import { adoptSnapshot } from './snapshots.ts'
import { observe } from './truth.ts'

/**
 * Finishes or undoes the operation of a process that died. Throws if the provider cannot be asked: then the row says so,
 * and the operation is recovered again before the next one, or as due work.
 */
export async function recover(context: Context, lease: Lease, operation: Operation): Promise<void> {
  const run: Run = { context, lease }
  await noting(
    run,
    async () => {
      if (operation === 'destroy') return void (await finishDestroy(run))
      await settle(run)
      if (operation === 'snapshot') await adoptSnapshot(run)
      if (operation === 'network') await recoverNetwork(run)
      if (lease.row.provider_sandbox_id !== null) await check(run)
    },
    { retryMs },
  )
}

/**
 * Makes the row and the provider agree after an unfinished create or restore: destroys what belongs to the row but is not
 * in use. Does nothing else, so every operation may call it first.
 */
export async function settle(run: Run): Promise<void> {
  const { context, lease } = run
  const { row } = lease
  const neverRan = row.status === 'creating' || (row.status === 'failed' && row.incarnation === 0)
  if (!neverRan && row.provider_sandbox_id !== null) return
  // Its sandbox was gone, and nothing was created since. If it turns up again, it holds the only copy of the files.
  if (!neverRan && row.status === 'failed' && row.snapshot_id === null) return
  const provider = await context.providers.of(row)
  tell(run, { step: 'wait', message: 'cleaning up after an earlier attempt' })
  await removeLeftovers(context, provider, row, lease.signal)
  const nothing = {
    provider_sandbox_id: null,
    expires_at: null,
    base_url: null,
    due_at: null,
    last_checked_at: context.now(),
  }
  if (row.status !== 'creating') await lease.update(nothing)
  else if (row.snapshot_id !== null)
    await lease.update({ ...nothing, status: 'stopped', error_message: null })
  else
    await lease.update({
      ...nothing,
      status: 'failed',
      error_message: row.error_message ?? 'The process that created it ended before the sandbox was ready.',
    })
}

/** Asks the provider for the sandbox's status, and writes it into the row. Wakes nothing. */
export async function check(run: Run): Promise<SandboxRow> {
  const { context, lease } = run
  const { row } = lease
  if (row.provider_sandbox_id === null) return row
  const provider = await context.providers.of(row)
  const observed = await observe(question(run, provider, row.provider_sandbox_id))
  const seen = { last_checked_at: context.now(), error_message: null }
  if (observed.status === 'gone') return markGone(run)
  const { status, expiresAt, rawStatus } = observed
  if (status === 'running')
    return lease.update({
      ...seen,
      ...seenNetwork(row, observed.handle),
      status,
      expires_at: expiresAt?.getTime() ?? null,
      ...(row.status !== 'running' && { incarnation: row.incarnation + 1, base_url: null }),
    })
  // `creating` in a row means that the registry creates it.
  const known = status === 'creating' ? ('unknown' as const) : status
  const error_message =
    known === 'unknown' || known === 'failed'
      ? `The provider reports the status “${rawStatus ?? status}”.`
      : null
  return lease.update({ ...seen, status: known, base_url: null, expires_at: null, error_message })
}

/** The provider no longer has the sandbox: it can be restored, or it has failed. */
export async function markGone({ context, lease }: Run): Promise<SandboxRow> {
  const canRestore = lease.row.snapshot_id !== null
  return lease.update({
    status: canRestore ? 'stopped' : 'failed',
    provider_sandbox_id: null,
    base_url: null,
    expires_at: null,
    due_at: null,
    last_checked_at: context.now(),
    error_message: canRestore ? null : goneReason(lease.row),
  })
}

/** What to say about a sandbox that is gone and has no snapshot. */
export function goneError(row: SandboxRow): SandboxError {
  const reason = row.status === 'failed' && row.error_message !== null ? row.error_message : goneReason(row)
  const again =
    row.snapshot_id === null ? 'Create it again under the same name' : 'Destroy it, and create it again'
  const error = new SandboxError('not_found', `“${row.name}” cannot be started: ${reason}`, {
    hint: {
      sdk: `${again}: create({ name: '${row.name}' }).`,
      http: `${again}.`,
      cli: `${again}: sandkasten sandbox create --name ${row.name} --provider ${row.provider}`,
    },
    details: { name: row.name, status: 'failed', provider: row.provider },
  })
  return isExplained(error)
}

function goneReason(row: SandboxRow): string {
  return `The sandbox no longer exists at ${row.provider}, and it has no snapshot.`
}
