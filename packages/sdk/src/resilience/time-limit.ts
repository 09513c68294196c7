import { SandboxError, type SandboxErrorOptions } from '../errors.ts'
import { abortable, onAbort } from '../shared/calls/abort.ts'
import type { Clock } from '../shared/calls/clock.ts'

export interface Limit extends SandboxErrorOptions {
  readonly ms: number
  readonly clock: Clock
  readonly signal: AbortSignal | undefined
  readonly what: string
}

/**
 * Runs the work with a time limit (`timeout`) and a signal (`aborted`). Fires the work's own signal in both cases.
 */
export async function within<T>(
  { ms, clock, signal, what, ...options }: Limit,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  let late: SandboxError | undefined
  const forget = onAbort(signal, () => controller.abort(signal!.reason))
  const cancel = clock.after(ms, () => {
    late = new SandboxError('timeout', `${what} took longer than ${ms} ms.`, options)
    controller.abort(late)
  })
  try {
    return await abortable(work(controller.signal), controller.signal, what)
  } catch (error) {
    throw late ?? error
  } finally {
    cancel()
    forget()
  }
}
