import { SandboxError } from '../../errors.ts'
import { abortable, throwIfAborted } from '../../shared/calls/abort.ts'
import type { CallOptions } from '../../spec/index.ts'
import { translated, translating } from './errors.ts'
import { gone } from './incarnation.ts'
import type { TimeLimits } from './options.ts'
import { again } from './retry.ts'
import type { DaytonaSandboxObject } from './sdk.ts'
import { failed, isTransitional, setupLabel } from './translation.ts'

/** How long a creator may take to set up a new sandbox before others stop waiting for it. */
const setupMs = 15 * 60_000
const lookMs = 100
const removeMs = 10_000

/** Waits until the vendor, and the creator, have finished changing the sandbox. */
export async function settled(
  sandbox: DaytonaSandboxObject,
  { startMs }: TimeLimits,
  { signal }: CallOptions,
): Promise<void> {
  const begin = Date.now()
  for (;;) {
    const since = sandbox.labels?.[setupLabel]
    if (!isTransitional(sandbox.state) && (since === undefined || sandbox.state !== 'started')) return
    if (since === undefined && Date.now() - begin > startMs)
      throw new SandboxError('timeout', `The sandbox ${sandbox.id} is still “${sandbox.state}”.`, {
        provider: 'daytona',
        sandboxId: sandbox.id,
        hint: 'Try again later, or raise `startTimeoutMs` of the provider.',
      })
    if (since !== undefined && Date.now() - Date.parse(since) > setupMs)
      throw new SandboxError('conflict', `The sandbox ${sandbox.id} was never set up completely.`, {
        provider: 'daytona',
        sandboxId: sandbox.id,
        hint: 'Its creator ended before the setup was complete. Destroy the sandbox and create it again.',
      })
    await new Promise((resolve) => setTimeout(resolve, lookMs))
    throwIfAborted(signal)
    try {
      await sandbox.refreshData()
    } catch (error) {
      const failure = translated(error, 'Reading the state of the sandbox', sandbox.id)
      throw failure.code === 'not_found' ? gone(sandbox.id, failure) : failure
    }
  }
}

/** Deletes a sandbox, and retries for a short time while the vendor refuses. A missing sandbox is not an error. */
export async function removed(sandbox: DaytonaSandboxObject, { startMs }: TimeLimits): Promise<void> {
  const until = Date.now() + Math.min(startMs, removeMs)
  const work = () => translating('Deleting', sandbox.id, sandbox.delete(startMs / 1000))
  for (;;) {
    try {
      return await again(work, undefined)
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return
      // The vendor is still creating it.
      if (!SandboxError.is(error, 'conflict') || Date.now() > until) throw error
      await new Promise((resolve) => setTimeout(resolve, lookMs))
    }
  }
}

/** Starts a sandbox that is stopped, paused, archived, or in a recoverable error. */
export async function awaken(
  sandbox: DaytonaSandboxObject,
  timeLimits: TimeLimits,
  call: CallOptions,
): Promise<void> {
  await settled(sandbox, timeLimits, call)
  const { state } = sandbox
  if (state === 'started') return
  if (state === 'destroyed' || state === 'destroying') throw gone(sandbox.id)
  const seconds = timeLimits.startMs / 1000
  const recoverable = state === 'error' && sandbox.recoverable === true
  if (state !== 'stopped' && state !== 'paused' && state !== 'archived' && !recoverable) throw failed(sandbox)
  const starting = recoverable ? sandbox.recover(seconds) : sandbox.start(seconds)
  await abortable(translating('Starting', sandbox.id, starting), call.signal, 'Starting the sandbox')
}
