import { randomUUID } from 'node:crypto'
import { SandboxError } from '@sandkasten/sdk'
import { type BeatWatch, pidOf, silentMs, stateOf, thisHolder } from '../leases/index.ts'
import type { HoldRow, Holds } from '../store/index.ts'
import type { Use } from '../types.ts'

/** What one thread of this process does with a sandbox. */
export interface UseKey {
  readonly sandboxId: string
  readonly threadId?: string
  readonly purpose: string
}

interface OwnUse {
  readonly row: HoldRow
  readonly incarnation: number
  /** How many holds of this process share the row. */
  count: number
  /** False: the sandbox cannot be held now. */
  readonly inserted: Promise<boolean>
}

/**
 * Which processes use which sandboxes. This process counts up the beats of its rows; observers on the same machine ask
 * for the process itself, and others wait until the beat stands still.
 */
export class Uses {
  readonly #holds: Holds
  readonly #watch: BeatWatch
  readonly #now: () => number
  readonly #own = new Map<string, OwnUse>()
  /** Released, but the database was away: the next beat tries again. */
  readonly #unreleased = new Set<string>()
  readonly #beatMs: number
  #beat: NodeJS.Timeout | undefined

  constructor(holds: Holds, watch: BeatWatch, now: () => number, { beatMs = silentMs / 3 } = {}) {
    this.#holds = holds
    this.#watch = watch
    this.#now = now
    this.#beatMs = beatMs
  }

  /**
   * Registers a use of this incarnation. Returns the function that ends it, or undefined if the sandbox has another
   * incarnation or is being stopped. Uses of one thread for one purpose share a row.
   */
  async begin(key: UseKey, incarnation: number): Promise<(() => Promise<void>) | undefined> {
    const name = JSON.stringify([key.sandboxId, incarnation, key.threadId ?? null, key.purpose])
    let own = this.#own.get(name)
    if (!own) {
      const row: HoldRow = {
        id: randomUUID(),
        sandbox_id: key.sandboxId,
        thread_id: key.threadId ?? null,
        holder: await thisHolder(),
        beat: 0,
        purpose: key.purpose,
        created_at: this.#now(),
      }
      // Another call may have registered it while this one waited.
      own = this.#own.get(name)
      if (!own) {
        own = { row, incarnation, count: 0, inserted: this.#holds.insert(row, { incarnation }) }
        this.#own.set(name, own)
      }
    }
    own.count += 1
    const entry = own
    const leave = async () => {
      entry.count -= 1
      if (entry.count > 0) return
      if (this.#own.get(name) === entry) this.#own.delete(name)
      if (await entry.inserted.catch(() => false)) await this.#release(entry.row.id)
      if (this.#isIdle) this.#stopBeating()
    }
    try {
      if (!(await entry.inserted)) {
        await leave()
        return undefined
      }
    } catch (error) {
      await leave()
      throw error
    }
    this.#keepBeating()
    let left: Promise<void> | undefined
    return () => {
      left ??= leave()
      return left
    }
  }

  /**
   * Uses of the sandbox by others than the thread. A use on another machine counts until its beat has stood still for
   * long enough, so a process that looks only once takes it for alive.
   */
  async of(sandbox: { readonly id: string }, { threadId }: { threadId?: string } = {}): Promise<Use[]> {
    const uses: Use[] = []
    for (const row of await this.#holds.of([sandbox.id])) {
      if (threadId !== undefined && row.thread_id === threadId) continue
      if (await this.#isDead(row)) await this.#holds.removeDead(row)
      else uses.push(useOf(row))
    }
    return uses
  }

  /** Removes the rows of this process. */
  async close(): Promise<void> {
    this.#stopBeating()
    const own = [...this.#own.values()]
    this.#own.clear()
    for (const { row, inserted } of own) if (await inserted.catch(() => false)) this.#unreleased.add(row.id)
    for (const id of this.#unreleased) await this.#holds.release(id)
    this.#unreleased.clear()
  }

  get #isIdle(): boolean {
    return this.#own.size === 0 && this.#unreleased.size === 0
  }

  async #release(id: string): Promise<void> {
    this.#unreleased.add(id)
    // The caller is done with the sandbox, and could not do more about it than the next beat does.
    await this.#holds.release(id).then(
      () => this.#unreleased.delete(id),
      () => {},
    )
  }

  async #isDead(row: HoldRow): Promise<boolean> {
    const state = await stateOf(row.holder)
    if (state !== 'elsewhere') return state === 'dead'
    return this.#watch.isSilent(`hold ${row.id}`, String(row.beat))
  }

  #keepBeating(): void {
    if (this.#isIdle) return
    this.#beat ??= setInterval(() => {
      // The database may be away for a moment; the next beat tries again.
      this.#beatOnce().catch(() => {})
    }, this.#beatMs).unref()
  }

  #stopBeating(): void {
    clearInterval(this.#beat)
    this.#beat = undefined
  }

  async #beatOnce(): Promise<void> {
    for (const id of this.#unreleased) await this.#release(id)
    if (this.#isIdle) return this.#stopBeating()
    const own = new Map<string, OwnUse>()
    for (const use of this.#own.values()) if (await use.inserted.catch(() => false)) own.set(use.row.id, use)
    for (const id of await this.#holds.beat([...own.keys()])) own.delete(id)
    // Another machine took this process for dead, because it was suspended or cut off from the database.
    for (const use of own.values()) {
      if (!this.#isOwn(use)) continue
      const inserted = await this.#holds.insert({ ...use.row, created_at: this.#now() }, use)
      // It may have been released while the database worked.
      if (inserted && !this.#isOwn(use)) await this.#release(use.row.id)
    }
  }

  #isOwn(use: OwnUse): boolean {
    return [...this.#own.values()].includes(use)
  }
}

export function useOf({ thread_id, purpose, created_at, holder }: HoldRow): Use {
  return {
    ...(thread_id !== null && { threadId: thread_id }),
    purpose,
    since: new Date(created_at),
    pid: pidOf(holder),
  }
}

/** The text as it is stored and shown. Throws if it is too long. */
export function checkPurpose(purpose: string): string {
  const text = purpose.replace(/\p{Cc}+/gu, ' ').trim()
  if (text !== '' && text.length <= 200) return text
  throw new SandboxError('invalid_argument', '`purpose` must have 1 to 200 characters.')
}
