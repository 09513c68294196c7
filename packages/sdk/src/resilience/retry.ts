import { checkCount, checkKnown, checkMs } from '../core/validate.ts'
import { SandboxError, type SandboxErrorCode } from '../errors.ts'
import { abortedError, throwIfAborted } from '../shared/abort.ts'
import { backoffMs, retryAfterMs } from '../shared/backoff.ts'
import { type Clock, sleep, waitingClock } from '../shared/clock.ts'
import type { CallOptions } from '../spec/index.ts'

export interface RetryOptions {
  /** How often a call is made in all. Default 4. */
  attempts?: number
  /** The wait after the first failure; it doubles, with chance in it. Default 250 ms. */
  baseMs?: number
  /** The longest wait. A provider that asks for a longer one (`retryAfterMs`) is not waited for. Default 30 seconds. */
  maxMs?: number
  /** Told before each wait. */
  onRetry?: (retry: Retry) => void
  /** For tests: a `ManualClock`. */
  clock?: Clock
}

export interface Retry {
  /** The method, as `files.stat`; absent for `retry()`. */
  readonly call?: string
  /** Which attempt failed, from 1. */
  readonly attempt: number
  readonly error: SandboxError
  readonly waitMs: number
}

/**
 * Makes a call again while it fails with an error that the table calls retryable (`unavailable`, `connection_lost`, `timeout`,
 * `rate_limited`). Only for calls that may happen twice; whoever writes it here says so. `withRetry` knows which do.
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
    ...(options.onRetry ? { onRetry: options.onRetry } : {}),
  }
}

export interface Repetition extends CallOptions {
  /** The name of the call, for `onRetry`. */
  readonly call?: string
  /** Only these codes; default: all that the table calls retryable. */
  readonly only?: readonly SandboxErrorCode[]
  /** Asked before each repetition. */
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
