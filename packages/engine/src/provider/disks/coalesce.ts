/**
 * Coalesces concurrent calls: at most one run is in flight and one is queued. A call always waits for a run that begins
 * after the call.
 */
export function coalesce<T>(work: () => Promise<T>): () => Promise<T> {
  let current: Promise<unknown> = Promise.resolve()
  let next: Promise<T> | undefined
  return () => {
    next ??= current
      .catch(() => {})
      .then(() => {
        const begun = work()
        current = begun
        next = undefined
        return begun
      })
    return next
  }
}
