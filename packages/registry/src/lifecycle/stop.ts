import { SandboxError, type SandboxHandle, type SandboxProvider, supports } from '@sandkasten/sdk'
import type { SandboxRow } from '../store/index.ts'
import type { InterruptingOptions } from '../types.ts'
import { request } from './deadline.ts'
import { canStop } from './options.ts'
import { noting, question, type Run, tell } from './run.ts'
import { check, goneError, markGone, settle } from './settle.ts'
import { observe, settled } from './truth.ts'
import { refuseWhileUsed } from './uses.ts'

/**
 * Stops the sandbox, under its lease, and keeps its disk. A stopped sandbox stays as it is, and so does a gone one with
 * a snapshot.
 */
export async function stop(
  run: Run,
  options: Pick<InterruptingOptions, 'force' | 'threadId'> = {},
): Promise<SandboxRow> {
  return noting(run, async () => {
    const { context, lease } = run
    const provider = await context.providers.of(lease.row)
    if (!canStop(provider)) throw cannotStop(provider)
    await settle(run)
    const { provider_sandbox_id: sandboxId } = lease.row
    if (sandboxId === null) {
      if (lease.row.snapshot_id === null) throw goneError(lease.row)
      return lease.row
    }
    const observed = await settled(question(run, provider, sandboxId), (status) =>
      tell(run, { step: 'wait', message: `waiting: its status at ${provider.name} is ${status}` }),
    )
    if (observed.status === 'gone') {
      const row = await markGone(run)
      if (row.snapshot_id === null) throw goneError(row)
      return row
    }
    if (observed.status !== 'running') return check(run)
    await refuseWhileUsed(run, options, 'Stopping it would end their programs.')
    tell(run, { step: 'stop', message: `stopping “${lease.row.name}” at ${provider.name}` })
    await stopAt(run, provider, observed.handle)
    const { status } = await observe(question(run, provider, sandboxId))
    if (status === 'running')
      throw new SandboxError('unavailable', `“${lease.row.name}” still runs: another program started it.`, {
        provider: provider.name,
      })
    return check(run)
  })
}

async function stopAt(run: Run, provider: SandboxProvider, handle: SandboxHandle): Promise<void> {
  const { changeMs: ms, cleanUpMs: graceMs } = run.context.timeouts
  const options = {
    ms,
    graceMs,
    signal: run.lease.signal,
    what: `Stopping “${run.lease.row.name}” at ${provider.name}`,
  }
  await request(options, async (signal) => {
    if (supports(handle, 'stop')) await handle.stop({ signal })
    else await handle.pause({ signal })
  })
}

function cannotStop({ name, capabilities }: SandboxProvider): SandboxError {
  const other = capabilities.snapshot === undefined ? 'destroy it' : 'save it with snapshot(), and destroy it'
  return new SandboxError('unsupported', `The provider “${name}” cannot stop a sandbox.`, {
    provider: name,
    details: { ability: 'stop' },
    hint: `When you no longer need it, ${other}.`,
  })
}
