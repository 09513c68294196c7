import { checkCount, checkKnown, checkMs } from '../core/validate.ts'
import { SandboxError, type SandboxErrorCode } from '../errors.ts'
import { abortedError, throwIfAborted } from '../shared/calls/abort.ts'
import { backoffMs, retryAfterMs } from '../shared/calls/backoff.ts'
import { type Clock, sleep, waitingClock } from '../shared/calls/clock.ts'
import type { CallOptions } from '../spec/index.ts'

export interface RetryOptions {
  /** The maximum number of attempts. Default 4. */
  attempts?: number
  /** The delay after the first failure; it doubles, with jitter. Default 250 ms. */
  baseMs?: number
  /** The longest delay. If a provider asks for more (`retryAfterMs`), the call fails instead. Default 30 seconds. */
  maxMs?: number
  onRetry?: (retry: Retry) => void
  /** For tests: a `ManualClock`. */
  clock?: Clock
}

export interface Retry {
  /** The method, such as `files.stat`; absent for `retry()`. */
  readonly call?: string
  /** The number of the failed attempt, from 1. */
  readonly attempt: number
  readonly error: SandboxError
  readonly waitMs: number
}

/**
 * Repeats a call while it fails with a retryable code (`unavailable`, `connection_lost`, `timeout`, `rate_limited`).
 * Use it only for calls that may happen twice. `withRetry` knows which ones may.
 */
export function retry<T>(
  call: (attempt: number) => Promise<T>,
  options: RetryOptions & CallOptions = {},
): Promise<T> {
  checkKnown(options, [...retryOptionNames, 'signal'], 'retry()')
  return repeat(call, checkedRetry(options), { signal: options.signal })
}

export type CheckedRetry = Required<Omit<RetryOptions, 'onRetry'>> & Pick<RetryOptions, 'onRetry'>

export const retryOptionNames: ReadonlyArray<keyof RetryOptions> = [
  'attempts',
  'baseMs',
  'maxMs',
  'onRetry',
  'clock',
]

export function checkedRetry(options: RetryOptions): CheckedRetry {
  return {
    attempts: checkCount(options.attempts ?? 4, 'attempts', 100),
    baseMs: checkMs(options.baseMs ?? 250, 'baseMs'),
    maxMs: checkMs(options.maxMs ?? 30_000, 'maxMs'),
    clock: options.clock ?? waitingClock,
    onRetry: options.onRetry,
  }
}

export interface Repetition extends CallOptions {
  readonly call?: string
  /** Only these codes. Default: all retryable codes. */
  readonly only?: readonly SandboxErrorCode[]
  readonly may?: () => boolean
}

export async function repeat<T>(
  call: (attempt: number) => Promise<T>,
  { attempts, baseMs, maxMs, clock, onRetry }: CheckedRetry,
  { signal, call: name, only, may = () => true }: Repetition,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    throwIfAborted(signal)
    try {
      return await call(attempt)
    } catch (error) {
      if (attempt >= attempts || !SandboxError.is(error) || !error.retryable || !may()) throw error
      if (only && !only.includes(error.code)) throw error
      const asked = retryAfterMs(error) ?? 0
      if (asked > maxMs) throw error
      const waitMs = Math.max(asked, backoffMs(attempt, { baseMs, maxMs }))
      onRetry?.({ call: name, attempt, error, waitMs })
      await sleep(clock, waitMs, signal).catch(() => {
        throw abortedError(signal!, `Waiting for another attempt after “${error.message}”`)
      })
    }
  }
}
