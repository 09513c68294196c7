import type { Context } from '../context.ts'

const mb = 1_048_576
const mostEvents = 100_000
const mostAudit = 1_000_000
/** Shrinks to this share of the limit, so that not every command triggers a removal. */
const slack = 0.9
const pruneEveryMs = 30_000

/**
 * Limits the size of the database: results of ended commands, events and the audit log. Removes the oldest first. Calls
 * may interleave; `enforce` does not run concurrently with itself.
 */
export class StoreBudget {
  readonly #context: Context
  #byProject = new Map<string, number>()
  #records = { events: 0, audit: 0 }
  #prunedAt = Number.NEGATIVE_INFINITY
  #enforcing: Promise<void> | undefined

  constructor(context: Context) {
    this.#context = context
    const { metrics } = context
    metrics.onRead(() => {
      metrics.set('sandkasten_store_bytes', { kind: 'results' }, this.#total)
      metrics.set('sandkasten_store_bytes', { kind: 'events' }, this.#records.events)
      metrics.set('sandkasten_store_bytes', { kind: 'audit' }, this.#records.audit)
    })
  }

  /** Counts a written result. Many results in a short time trigger `enforce` before the next round. */
  added(projectId: string, bytes: number): void {
    const kept = (this.#byProject.get(projectId) ?? 0) + bytes
    this.#byProject.set(projectId, kept)
    const { keep_project_results_mb: project, keep_results_mb: all } = this.#context.config
    if (kept <= project * mb && this.#total <= all * mb) return
    void this.enforce().catch((error) => this.#context.log.warn({ err: error }, 'cannot remove old results'))
  }

  enforce(): Promise<void> {
    this.#enforcing ??= this.#enforce().finally(() => {
      this.#enforcing = undefined
    })
    return this.#enforcing
  }

  get #total(): number {
    let sum = 0
    for (const bytes of this.#byProject.values()) sum += bytes
    return sum
  }

  async #enforce(): Promise<void> {
    const { store, config } = this.#context
    this.#byProject = await store.execs.keptBytes()
    for (const [project, bytes] of this.#byProject)
      if (bytes > config.keep_project_results_mb * mb)
        await this.#shrink(project, config.keep_project_results_mb * mb * slack)
    while (this.#total > config.keep_results_mb * mb) {
      const [largest, bytes] = [...this.#byProject].reduce((a, b) => (b[1] > a[1] ? b : a))
      await this.#shrink(largest, bytes * slack)
    }
    // Counting a long audit log takes milliseconds, so it is not done at every round.
    if (performance.now() - this.#prunedAt > pruneEveryMs) {
      this.#prunedAt = performance.now()
      this.#records = await store.records.prune({
        events: { rows: mostEvents, bytes: config.keep_events_mb * mb },
        audit: { rows: mostAudit, bytes: config.keep_audit_mb * mb },
      })
    }
    await store.giveBack()
  }

  async #shrink(projectId: string, target: number): Promise<void> {
    const { execs } = this.#context.store
    for (let kept = this.#byProject.get(projectId) ?? 0; kept > target; ) {
      const freed = await execs.dropOldest(projectId, kept - target)
      kept = freed === 0 ? 0 : kept - freed
      this.#byProject.set(projectId, kept)
    }
  }
}
