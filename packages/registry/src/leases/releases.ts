import type { Sandboxes } from '../store/sandboxes.ts'
import type { SandboxRow } from '../store/tables.ts'
import type { HeldLease } from './lease.ts'

const firstRetryMs = 250
const lastRetryMs = 10_000

/**
 * Releases leases. The database may be away when an operation ends. This process lives on, so its lease would not count
 * as dead; the release is tried again until it succeeds or another process has taken over.
 */
export class Releases {
  readonly #sandboxes: Sandboxes
  readonly #dueAt: ((row: SandboxRow) => number | null) | undefined
  readonly #failed = new Set<HeldLease>()
  #retryMs = firstRetryMs
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(sandboxes: Sandboxes, dueAt?: (row: SandboxRow) => number | null) {
    this.#sandboxes = sandboxes
    this.#dueAt = dueAt
  }

  async release(lease: HeldLease): Promise<void> {
    if (await this.#try(lease)) return
    this.#failed.add(lease)
    this.#schedule()
  }

  /** Tries at once to release this process's lease on this sandbox, if that failed before. */
  async retry(id: string): Promise<void> {
    for (const lease of this.#failed) if (lease.row.id === id) await this.#try(lease)
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    for (const lease of this.#failed) await this.#try(lease)
    this.#failed.clear()
  }

  /** False: the database is away. */
  async #try(lease: HeldLease): Promise<boolean> {
    const release = lease.isUnfinished ? 'unfinished' : 'done'
    const { due, row, token } = lease
    const changes = this.#dueAt ? { due_at: due ?? this.#dueAt(row) } : {}
    try {
      await this.#sandboxes.update(row.id, token, changes, { release })
    } catch {
      return false
    }
    this.#failed.delete(lease)
    return true
  }

  #schedule(): void {
    if (this.#closed || this.#timer !== undefined || this.#failed.size === 0) return
    this.#timer = setTimeout(() => void this.#retryAll(), this.#retryMs)
    // A process that ends is dead for all others, so nothing has to wait for this.
    this.#timer.unref()
  }

  async #retryAll(): Promise<void> {
    for (const lease of this.#failed) if (!(await this.#try(lease))) break
    this.#timer = undefined
    this.#retryMs = this.#failed.size === 0 ? firstRetryMs : Math.min(this.#retryMs * 2, lastRetryMs)
    this.#schedule()
  }
}
