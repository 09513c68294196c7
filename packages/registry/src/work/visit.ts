import { SandboxError, type SandboxProvider, supports } from '@sandkasten/sdk'
import type { Context } from '../context.ts'
import type { Lease } from '../leases/index.ts'
import { request } from '../lifecycle/deadline.ts'
import {
  check,
  markGone,
  observe,
  type Run,
  reasonText,
  settle,
  snapshot,
  snapshotInterrupts,
  stop,
} from '../lifecycle/index.ts'
import { canStop } from '../lifecycle/options.ts'
import { question, retryMs } from '../lifecycle/run.ts'
import type { SandboxRow } from '../store/index.ts'
import type { Backoff } from './backoff.ts'
import { dueAt, duePromises, isAhead, leadMs } from './due.ts'
import type { Visit } from './lane.ts'

/**
 * Does what is due for one row, under its lease. The row is read again there, so work that another process did
 * meanwhile is not done twice. Never rejects: a failure is recorded in the row, and tried again later.
 */
export async function visit(
  context: Context,
  seen: SandboxRow,
  backoff: Backoff,
  signal: AbortSignal | undefined,
): Promise<Visit> {
  const sandbox = seen.name
  if (backoff.isHeld(seen.id)) return undefined
  try {
    return await context.leases.operate(seen.id, 'check', (lease) => act(context, lease, backoff), {
      signal,
      waitMs: 0,
    })
  } catch (error) {
    // Another process works on it, took over, or has destroyed it: the row says what is due next.
    if (SandboxError.is(error, 'conflict', 'interrupted', 'not_found') || signal?.aborted) return undefined
    backoff.hold(seen.id, error)
    return { sandbox, error }
  }
}

async function act(context: Context, lease: Lease, backoff: Backoff): Promise<Visit> {
  const { id, name: sandbox } = lease.row
  const recovered = lease.recovered && `cleaned up after a process that ended during “${lease.recovered}”`
  try {
    const action = (await keepPromises({ context, lease })) ?? recovered
    backoff.reset(id)
    return action === undefined ? undefined : { sandbox, action }
  } catch (error) {
    const now = context.now()
    if (lease.signal.aborted) {
      // Not at once again: else each short command would wait for the same provider, and be cancelled.
      await lease.update({ due_at: now + delayOf(lease.row, now, retryMs) }).catch(() => {})
      throw error
    }
    await lease.update({
      error_message: reasonText(error),
      last_checked_at: now,
      due_at: now + delayOf(lease.row, now, backoff.next(id, error)),
    })
    return { sandbox, error }
  }
}

/** Not beyond the end of the sandbox: there must be time for another try. */
function delayOf({ status, expires_at }: SandboxRow, now: number, delay: number): number {
  if (status !== 'running' || expires_at === null || expires_at <= now) return delay
  return Math.min(delay, Math.max(leastDelayMs, Math.round((expires_at - now) / 3)))
}

async function keepPromises(run: Run): Promise<string | undefined> {
  const { context, lease } = run
  const before = lease.row
  await settle(run)
  if (lease.row.provider_sandbox_id === null) {
    await lease.update({ due_at: null })
    return before.provider_sandbox_id === null ? undefined : 'removed what a failed create had left'
  }
  const now = context.now()
  if (!isAhead(lease.row, now) && !isDue(lease.row, now)) {
    await lease.update({ due_at: dueAt(lease.row) })
    return undefined
  }
  const provider = await context.providers.of(lease.row)
  // The provider is the authority for what exists and when it ends.
  const row = await check(run)
  if (row.provider_sandbox_id === null) return `is gone at ${provider.name}`
  if (row.status !== before.status) return `is ${row.status} at ${provider.name}`
  const time = context.now()
  if (row.status === 'running' && row.expires_at !== null && row.expires_at + doubtMs < time) {
    // It runs although it should have ended: our clock may be ahead of the provider's, so nothing is decided by it.
    await lease.update({ due_at: time + recheckMs })
    return undefined
  }
  // Written before the clock was set back: the time without use starts now.
  if (isAhead({ ...row, last_checked_at: null }, time)) await lease.update({ last_used_at: time })
  const action = await keepNext(run, provider)
  const due = dueAt(lease.row, { snapshot: supports(provider, 'snapshot') })
  // A provider that is late must not be asked all the time.
  await lease.update({ due_at: due === null ? null : Math.max(due, context.now() + leastDelayMs) })
  return action
}

async function keepNext(run: Run, provider: SandboxProvider): Promise<string | undefined> {
  const { context, lease } = run
  const now = context.now()
  const due = new Set(
    duePromises(lease.row, { snapshot: supports(provider, 'snapshot') })
      .filter(({ at }) => at <= now)
      .map(({ what }) => what),
  )
  // What is idle and stopped needs no snapshot.
  if (due.has('idle')) {
    const stopped = await stopIdle(run, provider)
    if (stopped) return stopped
  }
  return due.has('save') ? save(run, provider) : undefined
}

/** `stop`, where the provider has it; else its disk is saved, and the sandbox is destroyed. */
async function stopIdle(run: Run, provider: SandboxProvider): Promise<string | undefined> {
  const { context, lease } = run
  const idleMs = lease.row.idle_stop_ms!
  const canSave = supports(provider, 'snapshot')
  if (!canStop(provider) && !canSave) {
    await lease.update({ idle_stop_ms: null })
    throw new SandboxError(
      'unsupported',
      `The provider “${provider.name}” can neither stop nor save a sandbox.`,
      {
        provider: provider.name,
        hint: 'It keeps running without use; destroy it when you no longer need it.',
      },
    )
  }
  // From here on, a new hold waits until the operation is over. This also reads the time of the last use again.
  const row = await lease.update({}, { operation: 'stop' })
  const uses = await context.uses.of(row)
  const usedAt = uses.length > 0 ? context.now() : row.last_used_at
  if (usedAt + idleMs > context.now()) {
    await lease.update({ last_used_at: usedAt })
    return undefined
  }
  const after = `after ${words(idleMs)} without use`
  if (canStop(provider)) {
    await stop(run)
    return `stopped ${after}`
  }
  await snapshot(run, { auto: true })
  await remove(run, provider)
  return `saved and removed at ${provider.name} ${after}`
}

async function remove(run: Run, provider: SandboxProvider): Promise<void> {
  const { context, lease } = run
  const { provider_sandbox_id: sandboxId, name } = lease.row
  if (sandboxId === null) return
  const limit = {
    ms: context.timeouts.changeMs,
    signal: lease.signal,
    what: `Removing “${name}” at ${provider.name}`,
  }
  await request(limit, (signal) => provider.destroy(sandboxId, { signal }))
  await markGone(run)
}

/**
 * A snapshot before the end. A sandbox in use is extended instead. If that fails, its programs are interrupted only when
 * the end cannot be avoided any more: an interruption costs less than the disk.
 */
async function save(run: Run, provider: SandboxProvider): Promise<string | undefined> {
  const { context, lease } = run
  // From here on, a new hold waits until the operation is over.
  await lease.update({}, { operation: 'snapshot' })
  const used = (await context.uses.of(lease.row)).length > 0
  if (used) {
    const result = await extend(run, provider)
    if (result === 'extended') return 'extended, because it is in use'
    const lastChance = lease.row.expires_at! - leadMs(lease.row) / 2
    if (result === 'failed' && snapshotInterrupts(provider) && context.now() < lastChance) {
      throw new SandboxError('unavailable', `“${lease.row.name}” is in use, and could not be extended.`, {
        provider: provider.name,
        hint: 'It is tried again, and saved shortly before its end.',
      })
    }
  }
  await snapshot(run, { auto: true, force: used })
  return 'saved before its end'
}

/** `refused`: its end cannot be moved. `failed`: the next try may succeed. */
async function extend(run: Run, provider: SandboxProvider): Promise<'extended' | 'refused' | 'failed'> {
  const { context, lease } = run
  const observed = await observe(question(run, provider, lease.row.provider_sandbox_id!))
  if (observed.status !== 'running' || !supports(observed.handle, 'lifetime')) return 'refused'
  const { handle } = observed
  const limit = { ms: context.timeouts.lookMs, signal: lease.signal, what: `Extending “${lease.row.name}”` }
  try {
    await request(limit, (signal) => handle.extendTimeout(extendMs, { signal }))
  } catch (error) {
    return SandboxError.is(error) && !error.retryable ? 'refused' : 'failed'
  }
  await check(run)
  const { row } = lease
  const isLater = row.expires_at === null || row.expires_at - leadMs(row) > context.now()
  return row.status === 'running' && isLater ? 'extended' : 'refused'
}

function isDue(row: SandboxRow, now: number): boolean {
  const due = dueAt(row)
  return due !== null && due <= now
}

function words(ms: number): string {
  const units = [
    [3_600_000, 'hour'],
    [60_000, 'minute'],
    [1_000, 'second'],
  ] as const
  const [size, unit] = units.find(([size]) => ms >= size && ms % size === 0) ?? ([1, 'millisecond'] as const)
  return `${ms / size} ${unit}${ms / size === 1 ? '' : 's'}`
}

const doubtMs = 60_000
const recheckMs = 5 * 60_000
const extendMs = 5 * 60_000
const leastDelayMs = 5_000
