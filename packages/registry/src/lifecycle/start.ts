import { SandboxError, type SandboxProvider } from '@sandkasten/sdk'
import { request } from './deadline.ts'
import { applyNetwork, hasNextNetwork, seenNetwork } from './network.ts'
import { restore } from './restore.ts'
import { type Made, noting, question, type Run, tell } from './run.ts'
import { goneError, markGone, settle } from './settle.ts'
import { type Observed, running, settled } from './truth.ts'

/**
 * Makes the sandbox run, under its lease.
 *
 *     running                      use it
 *     stopped, paused, archived    start it
 *     gone, failed                 restore the last snapshot, or `not_found`
 *     unknown, being started       wait; then `unavailable`, never a second sandbox
 */
export async function start(run: Run): Promise<Made> {
  return noting(run, async () => {
    const { context, lease } = run
    await settle(run)
    if (
      lease.row.status === 'failed' &&
      lease.row.snapshot_id === null &&
      lease.row.provider_sandbox_id === null
    )
      throw goneError(lease.row)
    const provider = await context.providers.of(lease.row)
    const { provider_sandbox_id: sandboxId } = lease.row
    if (sandboxId === null) return restore(run, provider)
    const observed = await settled(question(run, provider, sandboxId), (status) =>
      tell(run, { step: 'wait', message: `waiting: its status at ${provider.name} is ${status}` }),
    )
    if (observed.status === 'running') return used(run, provider, observed)
    if (observed.status !== 'gone' && observed.status !== 'failed') {
      // What was true before the start: a process that finds our unfinished start counts it as one.
      await lease.update({
        status: observed.status === 'creating' ? 'unknown' : observed.status,
        base_url: null,
      })
      const started = await startAt(run, provider, sandboxId)
      if (started) return started
    }
    return replace(run, provider, { failed: observed.status === 'failed' ? sandboxId : undefined })
  })
}

/** Undefined: the provider no longer has it. */
async function startAt(run: Run, provider: SandboxProvider, sandboxId: string): Promise<Made | undefined> {
  const { context, lease } = run
  const { changeMs: ms, cleanUpMs: graceMs } = context.timeouts
  tell(run, { step: 'start', message: `starting “${lease.row.name}” at ${provider.name}` })
  const options = {
    ms,
    graceMs,
    signal: lease.signal,
    what: `Starting “${lease.row.name}” at ${provider.name}`,
  }
  const handle = await request(options, (signal) =>
    provider.get(sandboxId, { signal }).catch((error: unknown) => {
      if (SandboxError.is(error, 'not_found')) return undefined
      throw error
    }),
  )
  if (!handle) return undefined
  return used(run, provider, await running(question(run, provider, sandboxId)))
}

async function used(
  run: Run,
  provider: SandboxProvider,
  observed: Exclude<Observed, { status: 'gone' }>,
): Promise<Made> {
  const { context, lease } = run
  const now = context.now()
  const row = await lease.update({
    ...seenNetwork(lease.row, observed.handle),
    status: 'running',
    // A sandbox that the row calls running was not started by this call.
    incarnation: lease.row.status === 'running' ? lease.row.incarnation : lease.row.incarnation + 1,
    ...(lease.row.status !== 'running' && { base_url: null }),
    error_message: null,
    expires_at: observed.expiresAt?.getTime() ?? null,
    last_checked_at: now,
    last_used_at: now,
  })
  return {
    row: hasNextNetwork(row) ? await applyNetwork(run, provider, observed.handle) : row,
    handle: observed.handle,
  }
}

/** The sandbox is gone, or failed for good: take its last snapshot. */
async function replace(run: Run, provider: SandboxProvider, { failed }: { failed?: string }): Promise<Made> {
  const { context, lease } = run
  if (lease.row.snapshot_id === null) {
    if (failed === undefined) throw goneError(await markGone(run))
    // Kept at the provider, where somebody may repair it; destroy() removes it.
    const error_message = `The sandbox has failed at ${provider.name}, and it has no snapshot.`
    throw goneError(await lease.update({ status: 'failed', error_message, last_checked_at: context.now() }))
  }
  if (failed !== undefined) {
    const options = {
      ms: context.timeouts.changeMs,
      signal: lease.signal,
      what: `Removing the failed “${lease.row.name}”`,
    }
    await request(options, (signal) => provider.destroy(failed, { signal }))
  }
  await markGone(run)
  return restore(run, provider)
}
