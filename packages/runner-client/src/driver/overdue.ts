import { SandboxError } from '@sandkasten/sdk'

/**
 * How long the runner may take to end a command after its timeout. Normally it takes milliseconds. Afterwards the caller
 * stops waiting: either the runner does not respond, or the kernel cannot end the command.
 */
export const overdueMs = 10_000

const longestTimer = 2 ** 31 - 1

/** Rejects with `late()` if `wait` takes longer than this. The awaited work continues. */
export async function within<T>(wait: Promise<T>, ms: number, late: () => Error): Promise<T> {
  // The runner accepts longer times than a JavaScript timer.
  if (ms > longestTimer) return wait
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(late()), ms)
  try {
    return await Promise.race([wait, promise])
  } finally {
    clearTimeout(timer)
  }
}

export function overdue(timeoutMs: number, cause?: unknown): SandboxError {
  return new SandboxError(
    'timeout',
    `The command did not end within ${overdueMs / 1000} s after its time limit of ${timeoutMs} ms.`,
    { cause, retryable: false, hint: 'The sandbox does not answer. Stop or destroy it.' },
  )
}
