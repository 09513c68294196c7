import { SandboxError } from '@sandkasten/sdk'

/**
 * When failed work is tried again: after 30 seconds, and twice as long after each further failure, up to 15 minutes. A
 * provider may ask for a longer pause.
 */
export class Backoff {
  readonly #failures = new Map<string, number>()
  readonly #heldUntil = new Map<string, number>()

  /** The delay after another failure of `key`. */
  next(key: string, error: unknown): number {
    if (this.#failures.size > 10_000) this.#failures.clear()
    const failures = (this.#failures.get(key) ?? 0) + 1
    this.#failures.set(key, failures)
    const delay = Math.min(firstMs * 2 ** Math.min(failures - 1, 20), mostMs)
    // Several processes that failed together must not come back together.
    return Math.round(Math.max(delay * (0.75 + Math.random() / 4), askedMs(error) ?? 0))
  }

  /** The same, for a failure that could not be recorded in the row: this process remembers it. */
  hold(key: string, error: unknown): void {
    this.#heldUntil.set(key, performance.now() + this.next(key, error))
  }

  isHeld(key: string): boolean {
    const until = this.#heldUntil.get(key)
    if (until === undefined) return false
    if (performance.now() < until) return true
    this.#heldUntil.delete(key)
    return false
  }

  reset(key: string): void {
    this.#failures.delete(key)
    this.#heldUntil.delete(key)
  }
}

/** How long the provider asked us to wait; at most an hour, because it may be mistaken. */
export function askedMs(error: unknown): number | undefined {
  if (!SandboxError.is(error)) return undefined
  const ms = error.details.retryAfterMs
  return typeof ms === 'number' && ms >= 0 ? Math.min(ms, 60 * 60_000) : undefined
}

/** Whether the error says something about the provider as a whole, rather than about one sandbox. */
export function isAboutProvider(error: unknown): boolean {
  return SandboxError.is(
    error,
    'rate_limited',
    'unavailable',
    'connection_lost',
    'timeout',
    'unauthenticated',
    'forbidden',
    'sdk_missing',
  )
}

const firstMs = 30_000
const mostMs = 15 * 60_000
