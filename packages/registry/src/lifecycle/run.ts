import { SandboxError, type SandboxHandle, type SandboxProvider } from '@sandkasten/sdk'
import type { Context } from '../context.ts'
import type { Lease } from '../leases/index.ts'
import type { SandboxRow } from '../store/index.ts'
import type { ProgressStep } from '../types.ts'
import { reasonText } from './reason.ts'
import type { Question } from './truth.ts'

/** An operation that holds the lease of a sandbox. */
export interface Run {
  readonly context: Context
  readonly lease: Lease
  readonly onProgress?: (step: ProgressStep) => void
}

/** A row with the handle of its sandbox. */
export interface Made {
  readonly row: SandboxRow
  readonly handle: SandboxHandle
}

/** A listener that throws does not end the operation. */
export function tell(run: Pick<Run, 'onProgress'>, step: ProgressStep): void {
  try {
    run.onProgress?.(step)
  } catch {
    // Progress is only shown.
  }
}

/** A question to the provider about the sandbox of the row. */
export function question(
  { context, lease }: Run,
  provider: SandboxProvider,
  sandboxId: string,
  signal: AbortSignal | undefined = lease.signal,
): Question {
  return { provider, sandboxId, name: lease.row.name, signal, timeouts: context.timeouts }
}

/**
 * Runs work that asks the provider. If it fails, the row keeps its status and says why; `retryMs` also makes it due
 * again. The error is thrown on.
 */
export async function noting<T>(
  run: Run,
  work: () => Promise<T>,
  { retryMs }: { retryMs?: number } = {},
): Promise<T> {
  const { context, lease } = run
  try {
    return await work()
  } catch (error) {
    // A cancelled or refused call says nothing about the sandbox.
    if (explained.has(error as object) || SandboxError.is(error, ...aboutTheCall)) throw error
    const now = context.now()
    const due = retryMs === undefined ? {} : { due_at: now + retryMs }
    await lease
      .update({ error_message: reasonText(error), last_checked_at: now, ...due })
      // The provider's error is the one to report.
      .catch(() => {})
    throw error
  }
}

/** Errors that say nothing about the sandbox: the call was cancelled, refused, or came at the wrong time. */
const aboutTheCall = [
  'aborted',
  'interrupted',
  'conflict',
  'unsupported',
  'invalid_argument',
  'not_running',
] as const

/** Errors that the row explains already, without secrets. */
const explained = new WeakSet<object>()

/** Marks an error whose reason is in the row, so that `noting` does not write it again. */
export function isExplained<E>(error: E): E {
  if (typeof error === 'object' && error !== null) explained.add(error)
  return error
}

/** How long until unfinished work is tried again. */
export const retryMs = 30_000
