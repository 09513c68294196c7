import { SandboxError } from '../errors.ts'

/** Throws `aborted` when the signal has fired. */
export function throwIfAborted(signal: AbortSignal | undefined, what = 'The call'): void {
  if (signal?.aborted) throw abortedError(signal, what)
}

export function abortedError(signal: AbortSignal, what = 'The call'): SandboxError {
  return new SandboxError('aborted', `${what} was cancelled by its AbortSignal.`, { cause: signal.reason })
}

/** The promise, or `aborted` as soon as the signal fires. The work behind the promise is not stopped by this. */
export function abortable<T>(
  promise: Promise<T>,
  signal: AbortSignal | undefined,
  what?: string,
): Promise<T> {
  if (!signal) return promise
  // Nobody may be left to hear of its failure, and one that nobody hears of ends a Node process.
  promise.catch(() => {})
  return new Promise<T>((resolve, reject) => {
    if (signal.aborted) return reject(abortedError(signal, what))
    const onAbort = () => reject(abortedError(signal, what))
    signal.addEventListener('abort', onAbort, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}

/** Calls back once when the signal fires (at once if it has); the returned function takes that back. */
export function onAbort(signal: AbortSignal | undefined, callback: () => void): () => void {
  if (!signal) return () => {}
  if (signal.aborted) {
    callback()
    return () => {}
  }
  signal.addEventListener('abort', callback, { once: true })
  return () => signal.removeEventListener('abort', callback)
}
