import { setTimeout as sleep } from 'node:timers/promises'
import type { OutputBudget } from '@sandkasten/sdk'
import { nextTurn } from '../../large-texts.ts'

/** The bytes of output that are read before the first pause, which most commands never reach, and between two pauses. */
const unpacedBytes = 1024 * 1024
const pacedBytes = 256 * 1024

/**
 * How much output of commands is read for one project while other projects run commands too: this many bytes at full
 * speed, then this many per second. Each byte costs the daemon garbage collection, which delays every project.
 */
const fastBytes = 64 * 1024 * 1024
const bytesPerMs = (16 * 1024 * 1024) / 1000
const longestDelayMs = 1_000
/** A project counts as active for this long after its last command. */
const activeMs = 60_000

/** What one project uses. */
class Share {
  used = 0
  #accounts = 0
  #usedAt = 0
  /** When the output that was read so far is paid for, at `bytesPerMs`. */
  #paidAt = 0

  /** Counts bytes that were read. Returns how long to wait before the next ones are read. */
  delayMs(bytes: number): number {
    const now = performance.now()
    const freeMs = fastBytes / bytesPerMs
    this.#paidAt = Math.min(Math.max(this.#paidAt, now) + bytes / bytesPerMs, now + freeMs + longestDelayMs)
    return this.#paidAt - now - freeMs
  }

  open(): void {
    this.#accounts++
  }

  close(): void {
    this.#accounts--
    this.#usedAt = performance.now()
  }

  get isActive(): boolean {
    return this.#accounts > 0 || this.#usedAt + activeMs > performance.now()
  }
}

/**
 * Limits the memory that each project has in flight: collected output, and responses that clients have not read yet.
 * One project cannot use the memory of another. Also limits how fast output is read for a project that has neighbours.
 */
export class ResultMemory {
  readonly #limit: number
  readonly #shares = new Map<string, Share>()

  constructor(bytesPerProject: number) {
    this.#limit = bytesPerProject
  }

  /** The bytes that all projects use. */
  get usedBytes(): number {
    let sum = 0
    for (const share of this.#shares.values()) sum += share.used
    return sum
  }

  open(projectId: string): ResultAccount {
    const share = this.#shares.get(projectId) ?? new Share()
    share.open()
    this.#shares.set(projectId, share)
    return new ResultAccount(share, this.#limit, () => this.#hasNeighbours())
  }

  #hasNeighbours(): boolean {
    for (const [id, share] of this.#shares) if (!share.isActive) this.#shares.delete(id)
    return this.#shares.size > 1
  }
}

/** The share of a project's memory that one command or one response uses. */
export class ResultAccount implements OutputBudget {
  readonly #share: Share
  readonly #limit: number
  readonly #hasNeighbours: () => boolean
  #held = 0
  #closed = false
  #untilPause = unpacedBytes

  constructor(share: Share, limit: number, hasNeighbours: () => boolean) {
    this.#share = share
    this.#limit = limit
    this.#hasNeighbours = hasNeighbours
  }

  take(bytes: number): boolean {
    if (this.#closed || bytes > this.#free) return false
    this.#add(bytes)
    return true
  }

  get held(): number {
    return this.#held
  }

  /** How many bytes the account can hold. */
  get room(): number {
    return Math.max(0, this.#free) + this.#held
  }

  /** Sets the held bytes, even beyond the available room. */
  hold(bytes: number): void {
    if (!this.#closed) this.#add(bytes - this.#held)
  }

  /** Pauses reading from time to time, so that a command with endless output does not block this process. */
  pace(bytes: number): Promise<void> | undefined {
    this.#untilPause -= bytes
    if (this.#untilPause > 0) return undefined
    this.#untilPause = pacedBytes
    const delayMs = this.#hasNeighbours() ? this.#share.delayMs(pacedBytes) : 0
    return delayMs > 1 ? sleep(delayMs).then(nextTurn) : nextTurn()
  }

  /** Returns all memory. The account cannot take any afterwards. */
  release(): void {
    if (this.#closed) return
    this.#add(-this.#held)
    this.#closed = true
    this.#share.close()
  }

  get #free(): number {
    return this.#limit - this.#share.used
  }

  #add(bytes: number): void {
    this.#held += bytes
    this.#share.used += bytes
  }
}
