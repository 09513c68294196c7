import { SandboxError } from '@sandkasten/sdk'
import type { Caller } from './keys.ts'

/** The interval of checks for keys that expired, or that another process revoked. */
const lookMs = 5_000

/**
 * Ends long responses with their key. Keys are checked when a request arrives, and a response may last for hours. A
 * watched response is aborted at once when this process revokes its key, and within seconds otherwise.
 */
export class KeyWatch {
  readonly #isValid: (caller: Caller) => Promise<boolean>
  readonly #open = new Map<AbortController, Caller>()
  #timer: NodeJS.Timeout | undefined

  constructor(isValid: (caller: Caller) => Promise<boolean>) {
    this.#isValid = isValid
  }

  /** Call `leave` when the response is complete. */
  enter(caller: Caller): { signal: AbortSignal; leave: () => void } {
    const controller = new AbortController()
    this.#open.set(controller, caller)
    this.#timer ??= setInterval(() => void this.look(), lookMs).unref()
    return { signal: controller.signal, leave: () => this.#leave(controller) }
  }

  async look(): Promise<void> {
    const valid = new Map<string, boolean>()
    for (const [controller, caller] of [...this.#open]) {
      // The database is away; the next check decides.
      const isValid = valid.get(caller.keyId) ?? (await this.#isValid(caller).catch(() => true))
      valid.set(caller.keyId, isValid)
      if (isValid) continue
      this.#leave(controller)
      controller.abort(new SandboxError('unauthenticated', 'The key is not valid any more.'))
    }
  }

  #leave(controller: AbortController): void {
    this.#open.delete(controller)
    if (this.#open.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
