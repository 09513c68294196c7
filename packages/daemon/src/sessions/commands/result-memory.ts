import type { OutputBudget } from '@sandkasten/sdk'
import { nextTurn } from '../../large-texts.ts'

/** Output that is read without a pause, as that of most commands is; then how much between two pauses. */
const unpacedBytes = 1024 * 1024
const pacedBytes = 256 * 1024

/**
 * Limits the memory of what each project has in flight: output that is being collected, and answers that their clients
 * have not read yet. One project cannot use the memory of another.
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

/** What one command or one answer uses of its project's memory. */
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

  /** Holds exactly this much from now on, even if that is more than there is room for. */
  hold(bytes: number): void {
    if (!this.#closed) this.#add(bytes - this.#held)
  }

  /** A command that writes without end must not keep this process from other work. */
  pace(bytes: number): Promise<void> | undefined {
    this.#untilPause -= bytes
    if (this.#untilPause > 0) return undefined
    this.#untilPause = pacedBytes
    return nextTurn()
  }

  /** Returns everything. The account takes nothing after that. */
  release(): void {
    this.#add(-this.#held)
    this.#closed = true
  }

  #add(bytes: number): void {
    this.#held += bytes
    this.#charge(bytes)
  }
}
