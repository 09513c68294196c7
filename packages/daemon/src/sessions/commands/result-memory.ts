import type { OutputBudget } from '@sandkasten/sdk'
import { nextTurn } from '../../large-texts.ts'

/** The bytes of output that are read before the first pause, which most commands never reach, and between two pauses. */
const unpacedBytes = 1024 * 1024
const pacedBytes = 256 * 1024

/**
 * Limits the memory that each project has in flight: collected output, and responses that clients have not read yet.
 * One project cannot use the memory of another.
 */
export class ResultMemory {
  readonly #limit: number
  readonly #used = new Map<string, number>()

  constructor(bytesPerProject: number) {
    this.#limit = bytesPerProject
  }

  /** The bytes that all projects use. */
  get usedBytes(): number {
    let sum = 0
    for (const used of this.#used.values()) sum += used
    return sum
  }

  open(projectId: string): ResultAccount {
    return new ResultAccount(
      () => this.#limit - (this.#used.get(projectId) ?? 0),
      (bytes) => {
        const used = (this.#used.get(projectId) ?? 0) + bytes
        if (used > 0) this.#used.set(projectId, used)
        else this.#used.delete(projectId)
      },
    )
  }
}

/** The share of a project's memory that one command or one response uses. */
export class ResultAccount implements OutputBudget {
  readonly #free: () => number
  readonly #charge: (bytes: number) => void
  #held = 0
  #closed = false
  #untilPause = unpacedBytes

  constructor(free: () => number, charge: (bytes: number) => void) {
    this.#free = free
    this.#charge = charge
  }

  take(bytes: number): boolean {
    if (this.#closed || bytes > this.#free()) return false
    this.#add(bytes)
    return true
  }

  get held(): number {
    return this.#held
  }

  /** How many bytes the account can hold. */
  get room(): number {
    return Math.max(0, this.#free()) + this.#held
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
    return nextTurn()
  }

  /** Returns all memory. The account cannot take any afterwards. */
  release(): void {
    this.#add(-this.#held)
    this.#closed = true
  }

  #add(bytes: number): void {
    this.#held += bytes
    this.#charge(bytes)
  }
}
