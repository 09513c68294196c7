import { SandboxError } from '../errors.ts'

export interface Backoff {
  /** The first wait. */
  readonly baseMs: number
  /** The longest wait. */
  readonly maxMs: number
}

/** How long to wait after so many failures in a row: twice as long each time, and by chance up to half of that less. */
export function backoffMs(failures: number, { baseMs, maxMs }: Backoff): number {
  const full = Math.min(maxMs, baseMs * 2 ** Math.min(failures - 1, 50))
  return full / 2 + (Math.random() * full) / 2
}

/** How long the provider wants to be left alone, if its error says so. */
export function retryAfterMs(error: unknown): number | undefined {
  if (!SandboxError.is(error)) return undefined
  const ms = error.details.retryAfterMs
  return typeof ms === 'number' && Number.isFinite(ms) && ms >= 0 ? ms : undefined
}
