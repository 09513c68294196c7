/** Time, as a test may hold it in its hands. */
export interface Clock {
  now(): number
  /** Milliseconds that passed since some moment, whatever the clock on the wall was set to. Default: as `now`. */
  elapsed?(): number
  /** Calls back after `ms`; the returned function takes that back. */
  after(ms: number, callback: () => void): () => void
}

/** For what happens beside the program: its timers never keep a process alive. */
export const realClock: Clock = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  after: (ms, callback) => timer(ms, callback, true),
}

/** For what somebody waits for: a Node process that waits for nothing else must not end meanwhile. */
export const waitingClock: Clock = { ...realClock, after: (ms, callback) => timer(ms, callback, false) }

/** Sleeps on a clock; rejects with the signal's reason when that fires. */
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
  // Browsers and Workers have numbers for timers, and nothing to keep alive.
  if (beside) (id as { unref?: () => void }).unref?.()
  return () => clearTimeout(id as Parameters<typeof clearTimeout>[0])
}
