import { setTimeout as wait } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'

const mostMs = 30_000

/**
 * Repeats a call of the chat until it succeeds or the signal fires. False: the chat says `not_found`, so the thread is
 * gone.
 */
export async function untilShown(
  call: () => Promise<void>,
  { signal, retryMs }: { signal: AbortSignal; retryMs: number },
): Promise<boolean> {
  for (let waitMs = retryMs; ; waitMs = Math.min(waitMs * 2, mostMs)) {
    signal.throwIfAborted()
    try {
      await call()
      return true
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return false
      await wait(waitMs, undefined, { signal })
    }
  }
}
