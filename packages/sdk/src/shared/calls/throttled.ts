const busy = new Map<string, { running: number; waiting: Array<() => void> }>()

/** Runs work with the same key at most `most` times at once; further work waits in order. */
export async function throttled<T>(key: string, most: number, work: () => Promise<T>): Promise<T> {
  const lane = busy.get(key) ?? { running: 0, waiting: [] }
  busy.set(key, lane)
  if (lane.running < most) lane.running += 1
  else await new Promise<void>((resolve) => lane.waiting.push(resolve))
  try {
    return await work()
  } finally {
    const next = lane.waiting.shift()
    if (next) next()
    else {
      lane.running -= 1
      if (lane.running === 0) busy.delete(key)
    }
  }
}
