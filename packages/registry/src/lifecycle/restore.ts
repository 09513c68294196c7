import path from 'node:path'
import { SandboxError, type SandboxProvider } from '@sandkasten/sdk'
import type { SandboxSettings } from '../types.ts'
import { createAt } from './create.ts'
import { openEnvironment } from './environment.ts'
import { madeNothing, removeLeftovers } from './leftovers.ts'
import { networkOf } from './network.ts'
import { restoreOptions } from './options.ts'
import { bothFailed, reasonText } from './reason.ts'
import { isExplained, type Made, type Run, retryMs, tell } from './run.ts'
import { goneError } from './settle.ts'
import { running } from './truth.ts'

/** Creates the sandbox again from its last snapshot. The row has no sandbox, and `settle` has removed leftovers. */
export async function restore(run: Run, provider: SandboxProvider): Promise<Made> {
  const { context, lease } = run
  const { row } = lease
  if (row.snapshot_id === null) throw goneError(row)
  const settings = JSON.parse(row.settings) as SandboxSettings
  const envVars = await openEnvironment(context, row)
  tell(run, { step: 'restore', message: `restoring “${row.name}” from its snapshot at ${provider.name}` })
  await lease.update(
    { status: 'creating', provider_sandbox_id: null, base_url: null, expires_at: null },
    { operation: 'restore' },
  )
  let sandboxId: string | null = null
  try {
    const handle = await createAt(run, provider, {
      ...restoreOptions(settings),
      envVars,
      snapshotId: row.snapshot_id,
    })
    sandboxId = handle.sandboxId
    await lease.update({ provider_sandbox_id: sandboxId })
    const { signal } = lease
    const { timeouts } = context
    const { expiresAt } = await running({ provider, sandboxId, name: row.name, signal, timeouts })
    const now = context.now()
    const changes = {
      status: 'running',
      incarnation: row.incarnation + 1,
      directory: path.posix.join(handle.workdir, settings.projectPath ?? ''),
      error_message: null,
      settings: JSON.stringify({
        ...settings,
        network: networkOf(settings),
        networkNext: undefined,
      } satisfies SandboxSettings),
      expires_at: expiresAt?.getTime() ?? null,
      last_checked_at: now,
      last_used_at: now,
    } as const
    return { row: await lease.update(changes), handle }
  } catch (error) {
    throw await undo(run, provider, { error, sandboxId, secrets: Object.values(envVars ?? {}) })
  }
}

/** The row goes back to `stopped`, with its snapshot, unless the snapshot is gone. Returns the error for the caller. */
async function undo(
  run: Run,
  provider: SandboxProvider,
  { error, sandboxId, secrets }: { error: unknown; sandboxId: string | null; secrets: string[] },
): Promise<unknown> {
  const { context, lease } = run
  const now = context.now()
  try {
    if (sandboxId !== null || !madeNothing(error))
      await removeLeftovers(context, provider, { ...lease.row, provider_sandbox_id: sandboxId })
  } catch (cleanUp) {
    const both = bothFailed(
      error,
      cleanUp,
      `a sandbox may exist at ${provider.name}; it will be removed later.`,
    )
    // Still `creating`: the next operation, or due work, removes it.
    await lease.update({ error_message: reasonText(both, secrets), due_at: now + retryMs }).catch(() => {})
    return isExplained(both)
  }
  const snapshotGone = sandboxId === null && SandboxError.is(error, 'not_found')
  const mayFollow = sandboxId === null && !snapshotGone && !madeNothing(error)
  const changes = {
    status: snapshotGone ? ('failed' as const) : ('stopped' as const),
    provider_sandbox_id: null,
    error_message: snapshotGone
      ? `The sandbox and its snapshot no longer exist at ${provider.name}.`
      : SandboxError.is(error, 'aborted')
        ? null
        : reasonText(error, secrets),
    last_checked_at: now,
    due_at: mayFollow ? now + retryMs : null,
  }
  const row = await lease.update(changes).catch(() => undefined)
  return isExplained(snapshotGone && row ? goneError(row) : error)
}
