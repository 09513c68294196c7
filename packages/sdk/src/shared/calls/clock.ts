export interface Clock {
  now(): number
  /** Monotonic milliseconds, independent of changes to the system clock. Default: `now`. */
  elapsed?(): number
  /** Calls back after `ms`; the returned function cancels that. */
  after(ms: number, callback: () => void): () => void
}

/** For background work: its timers do not keep a Node process alive. */
export const realClock: Clock = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  after: (ms, callback) => timer(ms, callback, true),
}

/** For awaited work: its timers keep a Node process alive. */
export const waitingClock: Clock = { ...realClock, after: (ms, callback) => timer(ms, callback, false) }

/** Sleeps on a clock; rejects with the signal's reason when the signal fires. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const onAbort = () => {
      cancel()
      reject(signal?.reason)
    }
    const cancel = clock.after(ms, () => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    })
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}

function timer(ms: number, callback: () => void, beside: boolean): () => void {
  const id: unknown = setTimeout(callback, ms)
  // In browsers and Workers, timers are numbers without `unref`.
  if (beside) (id as { unref?: () => void }).unref?.()
  return () => clearTimeout(id as Parameters<typeof clearTimeout>[0])
}
