import { SandboxError } from '../../errors.ts'

export interface Backoff {
  readonly baseMs: number
  readonly maxMs: number
}

/** The delay after this many consecutive failures: doubles each time, with up to half of it removed at random. */
export function backoffMs(failures: number, { baseMs, maxMs }: Backoff): number {
  const full = Math.min(maxMs, baseMs * 2 ** Math.min(failures - 1, 50))
  return full / 2 + (Math.random() * full) / 2
}

export function retryAfterMs(error: unknown): number | undefined {
  if (!SandboxError.is(error)) return undefined
  const ms = error.details.retryAfterMs
  return typeof ms === 'number' && Number.isFinite(ms) && ms >= 0 ? ms : undefined
}
