/** The twin's time: the machine's clock plus what tests have added with `advance`. */
export interface Clock {
  now(): number
  /** Moves the time forward and runs what has become due. */
  advance(ms: number): void
  /** Calls `run` when the twin's time reaches `dueAt`. Returns a function that cancels the call. */
  schedule(dueAt: number, run: () => void): () => void
  close(): void
}

interface Timer {
  readonly dueAt: number
  readonly run: () => void
  handle?: NodeJS.Timeout
}

const LONGEST_TIMEOUT_MS = 2 ** 31 - 1

export function createClock(): Clock {
  const timers = new Set<Timer>()
  let offset = 0

  const now = () => Date.now() + offset

  function arm(timer: Timer): void {
    clearTimeout(timer.handle)
    const waitMs = timer.dueAt - now()
    timer.handle = setTimeout(() => fire(timer), Math.min(Math.max(waitMs, 0), LONGEST_TIMEOUT_MS))
    timer.handle.unref()
  }

  function fire(timer: Timer): void {
    if (!timers.has(timer)) return
    if (timer.dueAt > now()) return arm(timer)
    timers.delete(timer)
    clearTimeout(timer.handle)
    timer.run()
  }

  return {
    now,
    advance(ms) {
      offset += ms
      for (const timer of [...timers].sort((a, b) => a.dueAt - b.dueAt)) {
        if (timer.dueAt <= now()) fire(timer)
        else arm(timer)
      }
    },
    schedule(dueAt, run) {
      const timer: Timer = { dueAt, run }
      timers.add(timer)
      arm(timer)
      return () => {
        timers.delete(timer)
        clearTimeout(timer.handle)
      }
    },
    close() {
      for (const timer of timers) clearTimeout(timer.handle)
      timers.clear()
    },
  }
}
