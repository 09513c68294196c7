import type { CallOptions } from '@sandkasten/sdk'
import type { Context } from '../context.ts'
import { thisHolder } from '../leases/index.ts'
import type { ProviderKey, SandboxRow } from '../store/index.ts'
import type { WorkReport } from '../types.ts'
import { Backoff } from './backoff.ts'
import { type LaneResult, runLane } from './lane.ts'
import { forgetDestroyed } from './tombstones.ts'
import { visit } from './visit.ts'
import { WorkerSign } from './worker-sign.ts'

export interface DueWorkOptions {
  /** The loop looks for new work at least this often. Default 15 seconds. */
  readonly mostWaitMs?: number
}

/**
 * Due work of all sandboxes. Each provider has its own lane, so one that hangs delays only its own sandboxes.
 *
 *     rows that are due, or with an operation of another process ──► a lane per provider ──► visit, under the lease
 *
 * Any number of processes may do this at the same time.
 */
export class DueWork {
  readonly #context: Context
  readonly #mostWaitMs: number
  readonly #backoff = new Backoff()
  readonly #busy = new Map<string, Promise<unknown>>()
  /** Providers that failed or asked for a pause, with its end on the steady clock. */
  readonly #paused = new Map<string, number>()

  constructor(context: Context, { mostWaitMs = 15_000 }: DueWorkOptions = {}) {
    this.#context = context
    this.#mostWaitMs = mostWaitMs
  }

  /** Does all work that is due now, and waits until it is done. */
  async once({ signal }: CallOptions = {}): Promise<WorkReport> {
    const started = await this.#start(signal)
    // Work that a loop of this process has begun belongs to what is due now.
    await Promise.all(this.#busy.values())
    return reportOf(await Promise.all(started))
  }

  /** Does work as it becomes due, until the signal fires. Failures are reported, and end nothing. */
  async loop({ signal, onReport }: CallOptions & { onReport?: (report: WorkReport) => void }): Promise<void> {
    const sign = new WorkerSign(this.#context)
    const tell = (report: WorkReport) => {
      if (report.done.length + report.failed.length === 0) return
      try {
        onReport?.(report)
      } catch {
        // A listener that throws does not end the work.
      }
    }
    while (!signal?.aborted) {
      const wake = new AbortController()
      let waitMs = this.#mostWaitMs
      try {
        await sign.show()
        for (const lane of await this.#start(signal))
          void lane.then((result) => {
            const report = reportOf([result])
            tell(report)
            // Only then, so that work that fails at once cannot keep the loop busy.
            if (report.done.length > 0) wake.abort()
          })
        waitMs = await this.#untilNext()
      } catch (error) {
        // The database is away.
        if (!signal?.aborted) tell({ done: [], failed: [{ sandbox: '', error }] })
      }
      await pause(waitMs, signal, wake.signal)
    }
    await Promise.all(this.#busy.values())
    // Without it, the sign is silent soon.
    await sign.remove().catch(() => {})
  }

  /** Starts a lane for each provider with due work, unless it has one already. */
  async #start(signal: AbortSignal | undefined): Promise<Array<Promise<LaneResult>>> {
    const { due } = this.#context.store
    // Due work does not depend on it, and the next process tries again.
    await forgetDestroyed(this.#context).catch(() => {})
    const unfinished = groupsOf(await this.#unfinished())
    for (const key of await due.providers(this.#context.now()))
      if (!unfinished.has(nameOf(key))) unfinished.set(nameOf(key), { key, rows: [] })
    const lanes: Array<Promise<LaneResult>> = []
    for (const [name, { key, rows }] of unfinished) {
      if (this.#busy.has(name) || this.#isPaused(name)) continue
      const lane = this.#runLane(key, rows, signal)
        .then((result) => {
          if (result.pauseMs !== undefined) this.#paused.set(name, performance.now() + result.pauseMs)
          return result
        })
        .finally(() => this.#busy.delete(name))
      this.#busy.set(name, lane)
      lanes.push(lane)
    }
    return lanes
  }

  async #runLane(
    key: ProviderKey,
    unfinished: SandboxRow[],
    signal: AbortSignal | undefined,
  ): Promise<LaneResult> {
    const { due } = this.#context.store
    let first: SandboxRow[] = unfinished
    try {
      return await runLane({
        rows: async () => {
          const rows = [...first, ...(await due.of(key, this.#context.now()))]
          first = []
          return rows
        },
        visit: (row) => visit(this.#context, row, this.#backoff, signal),
        signal,
      })
    } catch (error) {
      return { visits: [{ sandbox: '', error }], pauseMs: undefined }
    }
  }

  /** Rows with an operation of another process, which may have died. */
  async #unfinished(): Promise<SandboxRow[]> {
    const own = await thisHolder()
    const rows = await this.#context.store.due.unfinished()
    return rows.filter(({ lease_holder }) => lease_holder !== own)
  }

  #isPaused(name: string): boolean {
    const until = this.#paused.get(name)
    if (until === undefined || performance.now() < until) return until !== undefined
    this.#paused.delete(name)
    return false
  }

  async #untilNext(): Promise<number> {
    const now = this.#context.now()
    const next = await this.#context.store.due.next(now)
    return next === undefined
      ? this.#mostWaitMs
      : Math.min(Math.max(next - now, leastWaitMs), this.#mostWaitMs)
  }
}

const leastWaitMs = 50

function nameOf({ provider, credentials_id }: ProviderKey): string {
  return JSON.stringify([provider, credentials_id])
}

function groupsOf(rows: SandboxRow[]): Map<string, { key: ProviderKey; rows: SandboxRow[] }> {
  const groups = new Map<string, { key: ProviderKey; rows: SandboxRow[] }>()
  for (const row of rows) {
    const group = groups.get(nameOf(row)) ?? { key: row, rows: [] }
    group.rows.push(row)
    groups.set(nameOf(row), group)
  }
  return groups
}

function reportOf(results: LaneResult[]): WorkReport {
  const visits = results.flatMap(({ visits }) => visits)
  return {
    done: visits.filter((visit) => 'action' in visit),
    failed: visits.filter((visit) => 'error' in visit),
  }
}

function pause(ms: number, ...signals: Array<AbortSignal | undefined>): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      for (const signal of signals) signal?.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    for (const signal of signals) {
      if (signal?.aborted) done()
      else signal?.addEventListener('abort', done)
    }
  })
}
