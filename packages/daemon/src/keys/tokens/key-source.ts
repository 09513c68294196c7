import { SandboxError } from '@sandkasten/sdk'
import type { Log } from '../../log.ts'
import type { Verify } from './key-set.ts'

export interface KeySourceOptions {
  /** Reads all keys. */
  readonly read: (ending: AbortSignal) => Promise<Verify>
  readonly refreshMs: number
  readonly cooldownMs: number
  readonly maxStaleMs: number
  readonly log: Log
}

/** One read of the keys. Times are those of `performance.now()`. */
export interface Keys {
  readonly verify: Verify
  readonly beganAt: number
  readonly readAt: number
}

/**
 * Keeps the keys that verify tokens, and reads them again from time to time. Keys that were read stay in use while a
 * later read fails, for `maxStaleMs`. Without usable keys every call throws `unavailable`: the token may well be valid.
 *
 * Calls may interleave: at most one read is in flight, and requests cause at most one per `cooldownMs`.
 */
export class KeySource {
  readonly #options: KeySourceOptions
  readonly #ending = new AbortController()
  #keys: Keys | undefined
  #reading: Promise<void> | undefined
  #askedAt = Number.NEGATIVE_INFINITY
  #failed = false
  #timer: NodeJS.Timeout | undefined

  constructor(options: KeySourceOptions) {
    this.#options = options
  }

  /** Reads the keys for the first time. A failure is logged, and the next read retries. */
  start(): Promise<void> {
    return this.#read()
  }

  close(): void {
    this.#ending.abort()
    clearTimeout(this.#timer)
  }

  /** Seconds since the keys were read; undefined without keys. */
  get ageSeconds(): number | undefined {
    return this.#keys && (performance.now() - this.#keys.readAt) / 1000
  }

  async current(): Promise<Keys> {
    if (!this.#usable()) await this.#ask()
    const usable = this.#usable()
    if (usable) return usable
    throw this.#unavailable()
  }

  /** Keys that were read after these. */
  async newerThan(keys: Keys): Promise<Keys> {
    if (this.#keys === keys) await this.#ask()
    if (this.#keys === undefined || this.#keys === keys) throw this.#unavailable()
    return this.#keys
  }

  #usable(): Keys | undefined {
    return this.#keys && performance.now() - this.#keys.readAt <= this.#options.maxStaleMs
      ? this.#keys
      : undefined
  }

  /** Waits for a read. Starts none during the cooldown. */
  async #ask(): Promise<void> {
    if (!this.#reading) {
      if (performance.now() - this.#askedAt < this.#options.cooldownMs) return
      this.#askedAt = performance.now()
    }
    await this.#read()
  }

  #read(): Promise<void> {
    this.#reading ??= this.#readOnce().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  async #readOnce(): Promise<void> {
    const { read, log, refreshMs, cooldownMs } = this.#options
    const beganAt = performance.now()
    clearTimeout(this.#timer)
    try {
      const verify = await read(this.#ending.signal)
      this.#keys = { verify, beganAt, readAt: performance.now() }
      if (this.#failed) log.info({}, 'the keys for tokens can be read again')
      this.#failed = false
    } catch (error) {
      if (this.#ending.signal.aborted) return
      if (!this.#failed)
        log.warn(
          { err: error },
          this.#keys
            ? 'cannot read the keys for tokens; the previous keys stay in use'
            : 'cannot read the keys for tokens; requests with tokens get 503',
        )
      this.#failed = true
    }
    if (this.#ending.signal.aborted) return
    this.#timer = setTimeout(() => void this.#read(), this.#failed ? Math.max(1000, cooldownMs) : refreshMs)
    this.#timer.unref()
  }

  #unavailable(): SandboxError {
    const left = this.#askedAt + this.#options.cooldownMs - performance.now()
    return new SandboxError('unavailable', 'The keys that verify tokens cannot be read now.', {
      details: { retryAfterMs: Math.max(1000, Math.ceil(left)) },
      hint: 'Try again in a moment. API keys are not affected.',
    })
  }
}
