import { setTimeout } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'
import { onAbort, throwIfAborted } from '@sandkasten/sdk/provider'
import type { Sandboxes } from '../store/sandboxes.ts'
import type { Operation, SandboxRow } from '../store/tables.ts'
import { stateOf, thisHolder } from './holder.ts'
import { HeldLease, type Lease } from './lease.ts'
import { Releases } from './releases.ts'
import { Turns } from './turns.ts'
import { type BeatWatch, silentMs } from './watch.ts'

const longestPauseMs = 250

export interface OperateOptions {
  readonly signal?: AbortSignal
  /** How long to wait for another operation. Default: until it ends. */
  readonly waitMs?: number
  /** Called once when another operation holds the lease. */
  readonly onWait?: (row: SandboxRow) => void
  /** Checked while waiting: a value ends the wait without the lease. */
  readonly unless?: (row: SandboxRow) => boolean
}

/**
 * One operation on one sandbox at a time, across processes and machines.
 *
 *     free ──take──► held ──update…──► released
 *                     │ the holder dies, falls silent, or cannot write what it did
 *                     └──► taken over: `recover` finishes or undoes the operation, then the next one runs
 *
 * Callers of this process queue up, so only the first of them polls the database.
 */
export class Leases {
  readonly #sandboxes: Sandboxes
  readonly #watch: BeatWatch
  readonly #recover: (lease: Lease, operation: Operation) => Promise<void>
  readonly #releases: Releases
  readonly #turns = new Turns()

  /**
   * `recover` finishes or undoes the operation of a dead holder, under the new lease. Its row is as the holder left it.
   * `dueAt` says when a row is due next; it is asked at the end of each operation.
   */
  constructor(
    sandboxes: Sandboxes,
    watch: BeatWatch,
    recover: (lease: Lease, operation: Operation) => Promise<void>,
    dueAt?: (row: SandboxRow) => number | null,
  ) {
    this.#sandboxes = sandboxes
    this.#watch = watch
    this.#recover = recover
    this.#releases = new Releases(sandboxes, dueAt)
  }

  /**
   * Runs `work` under the lease. Undefined: `unless` ended the wait. Throws `not_found` if the sandbox is no longer
   * live, and `conflict` after `waitMs`. If `recover` throws, the operation stays unfinished, and the error is thrown.
   * `work` must not operate on the same sandbox again: that would wait for itself.
   */
  async operate<T>(
    id: string,
    operation: Operation,
    work: (lease: Lease) => Promise<T>,
    options: OperateOptions = {},
  ): Promise<T | undefined> {
    const until = performance.now() + (options.waitMs ?? Infinity)
    const waits = this.#turns.isTaken(id)
    if (waits) {
      const row = await this.#live(id)
      if (options.unless?.(row)) return undefined
      options.onWait?.(row)
    }
    const endTurn = await this.#turn(id, until, options.signal)
    try {
      if (waits && options.unless?.(await this.#live(id))) return undefined
      const taken = await this.#take(
        id,
        operation,
        until,
        waits ? { ...options, onWait: undefined } : options,
      )
      if (!taken) return undefined
      return await this.#hold(taken.row, options.signal, async (lease) => {
        if (taken.dead) {
          await this.#recovering(lease, taken.dead)
          lease.recovered = taken.dead
          if (lease.row.live !== 1) throw gone(lease.row.name)
          await lease.update({}, { operation })
        }
        return work(lease)
      })
    } finally {
      endTurn()
    }
  }

  /** Runs `work` under a lease that the row was inserted with. */
  async adopt<T>(
    row: SandboxRow,
    signal: AbortSignal | undefined,
    work: (lease: Lease) => Promise<T>,
  ): Promise<T> {
    const endTurn = await this.#turns.take(row.id, { signal })
    try {
      return await this.#hold(row, signal, work)
    } finally {
      endTurn()
    }
  }

  /** Tries once more to release what could not be released, then stops trying. */
  close(): Promise<void> {
    return this.#releases.close()
  }

  async #turn(id: string, until: number, signal: AbortSignal | undefined): Promise<() => void> {
    try {
      return await this.#turns.take(id, { signal, waitMs: Math.max(0, until - performance.now()) })
    } catch (error) {
      if (!SandboxError.is(error, 'conflict')) throw error
      throw busy(await this.#live(id))
    }
  }

  async #take(
    id: string,
    operation: Operation,
    until: number,
    { signal, onWait, unless }: OperateOptions,
  ): Promise<{ row: SandboxRow; dead?: Operation } | undefined> {
    const holder = await thisHolder()
    for (let round = 0; ; round += 1) {
      throwIfAborted(signal)
      const taken = await this.#sandboxes.take(id, holder, operation)
      if (taken) return { row: taken }
      const row = await this.#live(id)
      if (unless?.(row)) return undefined
      // Released just now.
      if (row.operation === null && row.lease_holder === null) continue
      if (row.lease_holder === null || (await this.#isDead(row, row.lease_holder))) {
        const over = await this.#sandboxes.takeOver(id, holder, row)
        this.#watch.forget(watchKey(id))
        if (over) return { row: over, dead: row.operation ?? 'check' }
        continue
      }
      await this.#releases.retry(id)
      if (round === 0) onWait?.(row)
      if (performance.now() >= until) throw busy(row)
      const pauseMs = Math.min(20 * 1.5 ** round, longestPauseMs) * (0.75 + Math.random() / 2)
      await pause(Math.max(0, Math.min(pauseMs, until - performance.now())), signal)
    }
  }

  async #live(id: string): Promise<SandboxRow> {
    const row = await this.#sandboxes.byId(id)
    if (row?.live !== 1) throw gone(row?.name)
    return row
  }

  /** Whether the holder has ended, or is silent: it is stopped, or it cannot reach the database. */
  async #isDead(row: SandboxRow, holder: string): Promise<boolean> {
    if ((await stateOf(holder)) === 'dead') return true
    return this.#watch.isSilent(watchKey(row.id), `${row.lease_token} ${row.lease_beat}`)
  }

  async #recovering(lease: HeldLease, dead: Operation): Promise<void> {
    try {
      await this.#recover(lease, dead)
    } catch (error) {
      lease.leaveUnrecovered()
      throw error
    }
  }

  async #hold<T>(
    row: SandboxRow,
    signal: AbortSignal | undefined,
    work: (lease: HeldLease) => Promise<T>,
  ): Promise<T> {
    const ending = new AbortController()
    const stopListening = onAbort(signal, () => ending.abort(signal!.reason))
    const lease = new HeldLease(this.#sandboxes, row, ending)
    const stopBeating = this.#beat(lease)
    try {
      return await work(lease)
    } finally {
      stopBeating()
      stopListening()
      if (lease.needsRelease) await this.#releases.release(lease)
    }
  }

  /** Renews the lease while its holder works. A holder that cannot renew it for `silentMs` has to stop its work. */
  #beat(lease: HeldLease): () => void {
    let isBeating = false
    let renewedAt = performance.now()
    const beat = async () => {
      if (isBeating) return
      isBeating = true
      const startedAt = performance.now()
      try {
        if (await this.#sandboxes.renew(lease.row.id, lease.token)) renewedAt = startedAt
        else lease.lose()
      } catch {
        // The database may be away for a moment; the next beat tries again.
        if (performance.now() - renewedAt > silentMs) lease.doubt()
      } finally {
        isBeating = false
      }
    }
    const timer = setInterval(() => void beat(), silentMs / 3)
    timer.unref()
    return () => clearInterval(timer)
  }
}

function watchKey(id: string): string {
  return `lease ${id}`
}

function gone(name: string | undefined): SandboxError {
  return new SandboxError(
    'not_found',
    name === undefined ? 'The sandbox is gone.' : `“${name}” was destroyed.`,
  )
}

function busy({ name, operation }: SandboxRow): SandboxError {
  return new SandboxError(
    'conflict',
    `“${name}” is busy: another operation (${operation ?? 'check'}) has not ended.`,
    {
      hint: 'Try again in a moment.',
      details: { operation },
    },
  )
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return setTimeout(ms, undefined, { signal }).catch(() => {})
}
