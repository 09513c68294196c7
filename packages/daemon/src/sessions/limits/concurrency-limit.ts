import { SandboxError } from '@sandkasten/sdk'

/** Limits how many calls of one project run at once. For calls that may need much memory, such as long file lists. */
export class ConcurrencyLimit {
  readonly #most: number
  readonly #busy = new Map<string, number>()
  readonly #waiting = new Map<string, Array<() => void>>()

  constructor(most = 4) {
    this.#most = most
  }

  async run<T>(projectId: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    await this.#enter(projectId, signal)
    try {
      return await work()
    } finally {
      this.#leave(projectId)
    }
  }

  async #enter(projectId: string, signal: AbortSignal | undefined): Promise<void> {
    const busy = this.#busy.get(projectId) ?? 0
    if (busy < this.#most) {
      this.#busy.set(projectId, busy + 1)
      return
    }
    const queue = this.#waiting.get(projectId) ?? []
    this.#waiting.set(projectId, queue)
    await new Promise<void>((resolve, reject) => {
      const next = () => {
        signal?.removeEventListener('abort', leave)
        resolve()
      }
      const leave = () => {
        const at = queue.indexOf(next)
        if (at !== -1) queue.splice(at, 1)
        reject(new SandboxError('aborted', 'The client disconnected.'))
      }
      signal?.addEventListener('abort', leave, { once: true })
      queue.push(next)
    })
  }

  /** The slot goes to the call that has waited longest. */
  #leave(projectId: string): void {
    const queue = this.#waiting.get(projectId)
    const next = queue?.shift()
    if (queue?.length === 0) this.#waiting.delete(projectId)
    if (next) return next()
    const busy = (this.#busy.get(projectId) ?? 1) - 1
    if (busy === 0) this.#busy.delete(projectId)
    else this.#busy.set(projectId, busy)
  }
}
