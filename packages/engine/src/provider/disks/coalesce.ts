/**
 * Work that one may do for all who ask for it meanwhile. Who asks while it is under way waits for the next time, which begins after he asked; there is
 * never more than one such time waiting.
 */
export function joined<T>(work: () => Promise<T>): () => Promise<T> {
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
