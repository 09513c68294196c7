/**
 * Runs the work for each item with limited concurrency; the first failure stops the rest. Results keep their order.
 */
export async function mapLimit<T, R>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = new Array(items.length)
  let next = 0
  let failed = false
  const worker = async (): Promise<void> => {
    while (next < items.length && !failed) {
      const index = next
      next += 1
      try {
        results[index] = await work(items[index]!)
      } catch (error) {
        failed = true
        throw error
      }
    }
  }
  const ends = await Promise.allSettled(Array.from({ length: Math.min(limit, items.length) }, worker))
  for (const end of ends) if (end.status === 'rejected') throw end.reason
  return results
}
