import type { DestroyResult, InterruptingOptions } from '../types.ts'
import { request } from './deadline.ts'
import { removeLeftovers } from './leftovers.ts'
import { reasonText } from './reason.ts'
import { noting, type Run, tell } from './run.ts'
import { deleteAutomatic } from './snapshots.ts'
import { refuseWhileUsed } from './uses.ts'

/** Destroys the sandbox, under its lease, and frees the name. If the provider refuses, everything stays as it is. */
export async function destroy(
  run: Run,
  options: Pick<InterruptingOptions, 'force' | 'threadId'> = {},
): Promise<DestroyResult> {
  return noting(run, async () => {
    await refuseWhileUsed(run, options, 'Destroying it would end their programs and delete its disk.')
    return finishDestroy(run)
  })
}

/** Also for a destroy that a process began and did not finish. */
export async function finishDestroy(run: Run): Promise<DestroyResult> {
  const { context, lease } = run
  const { row } = lease
  const provider = await context.providers.of(row)
  tell(run, { step: 'destroy', message: `destroying “${row.name}” at ${provider.name}` })
  const { provider_sandbox_id: sandboxId } = row
  let existed = false
  if (sandboxId !== null) {
    const { changeMs: ms, cleanUpMs: graceMs } = context.timeouts
    const limit = { ms, graceMs, signal: lease.signal, what: `Destroying “${row.name}” at ${provider.name}` }
    existed = await request(limit, (signal) => provider.destroy(sandboxId, { signal }))
  }
  // A sandbox of an attempt that is not in the row would outlive it.
  if (sandboxId === null || row.incarnation === 0) {
    const left = await removeLeftovers(context, provider, { ...row, provider_sandbox_id: null }, lease.signal)
    existed ||= left.length > 0
  }
  let problem: unknown
  await deleteAutomatic(run, provider, null).catch((error: unknown) => {
    problem = error
  })
  const keptSnapshot = problem !== undefined || row.snapshot_auto === 0 ? row.snapshot_id : null
  const threads = await lease.tombstone({
    snapshot_id: keptSnapshot,
    error_message:
      problem === undefined ? null : `Its snapshots could not be deleted: ${reasonText(problem)}`,
  })
  tell(run, { step: 'done', message: `“${row.name}” is destroyed` })
  return { existed, threads, ...(keptSnapshot !== null && { snapshotId: keptSnapshot }) }
}
