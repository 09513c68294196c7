import { SandboxError } from '../../errors.ts'

export function throwIfAborted(signal: AbortSignal | undefined, what = 'The call'): void {
  if (signal?.aborted) throw abortedError(signal, what)
}

export function abortedError(signal: AbortSignal, what = 'The call'): SandboxError {
  return new SandboxError('aborted', `${what} was cancelled by its AbortSignal.`, { cause: signal.reason })
}

/** Rejects with `aborted` as soon as the signal fires. Does not stop the work behind the promise. */
export function abortable<T>(
  promise: Promise<T>,
  signal: AbortSignal | undefined,
  what?: string,
): Promise<T> {
  if (!signal) return promise
  // After an abort nothing else handles a later rejection, and an unhandled one ends a Node process.
  promise.catch(() => {})
  return new Promise<T>((resolve, reject) => {
    if (signal.aborted) return reject(abortedError(signal, what))
    const onAbort = () => reject(abortedError(signal, what))
    signal.addEventListener('abort', onAbort, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}

/** Calls back once when the signal fires, immediately if it already has. The returned function cancels that. */
export function onAbort(signal: AbortSignal | undefined, callback: () => void): () => void {
  if (!signal) return () => {}
  if (signal.aborted) {
    callback()
    return () => {}
  }
  signal.addEventListener('abort', callback, { once: true })
  return () => signal.removeEventListener('abort', callback)
}
