import { SandboxError } from '@sandkasten/sdk'

/** Runs `work` with a signal that ends it after `deadlineMs`, or with the caller’s signal. */
export async function withDeadline<T>(
  what: string,
  deadlineMs: number,
  outer: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const deadline = new AbortController()
  const timer = setTimeout(() => deadline.abort(), deadlineMs)
  const signal = outer ? AbortSignal.any([outer, deadline.signal]) : deadline.signal
  try {
    outer?.throwIfAborted()
    return await work(signal)
  } catch (error) {
    if (outer?.aborted)
      throw SandboxError.is(error, 'aborted')
        ? error
        : new SandboxError('aborted', `${what} was cancelled.`, { cause: error })
    if (deadline.signal.aborted && !SandboxError.is(error, 'timeout'))
      throw new SandboxError('timeout', `${what} took longer than ${deadlineMs / 1000} s.`, {
        cause: error,
        hint: 'Raise deadlineMs.',
      })
    throw error
  } finally {
    clearTimeout(timer)
  }
}
