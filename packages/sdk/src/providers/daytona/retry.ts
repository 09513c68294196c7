import { SandboxError } from '../../errors.ts'
import { throwIfAborted } from '../../shared/calls/abort.ts'
import { backoffMs, retryAfterMs } from '../../shared/calls/backoff.ts'

const tries = 4
const firstWaitMs = 100

/** Retries up to three times after a transient failure; only for idempotent calls. Waits as long as the vendor asks, if that is short. */
export async function again<T>(work: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work()
    } catch (error) {
      if (attempt >= tries || !SandboxError.is(error) || !mayPass(error)) throw error
      const waitMs = retryAfterMs(error) ?? backoffMs(attempt, { baseMs: firstWaitMs, maxMs: longestWaitMs })
      if (waitMs > longestWaitMs) throw error
      await new Promise((resolve) => setTimeout(resolve, waitMs))
      throwIfAborted(signal)
    }
  }
}

/** An invalid response may come from a proxy, so another try may succeed. */
function mayPass({ code, details }: SandboxError): boolean {
  return (
    code === 'connection_lost' ||
    code === 'unavailable' ||
    code === 'rate_limited' ||
    details.garbled === true
  )
}

const longestWaitMs = 2_000
