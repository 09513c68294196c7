import { closeSync, existsSync, fsyncSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs'
import path from 'node:path'

export interface ReserveOptions {
  /** Less is reserved on a disk with little room. */
  readonly mostBytes?: number
  /** The reserve outlives this process, so that short programs need not write it each time. Its file has another name. */
  readonly stays?: boolean
}

const leastBytes = 64 * 1024

/**
 * Reserved disk space, so that a full disk does not stop the program: existing rows can still change, and old rows can
 * still be removed. `spent` means that the disk was full and the reserve was given up. Then nothing may be added until there is
 * room for the reserve again.
 *
 *     none ──► held ──► spent ──► held …
 */
export class Reserve {
  readonly #file: string
  readonly #mostBytes: number
  readonly #stays: boolean
  #state: 'none' | 'held' | 'spent' = 'none'

  constructor(databaseFile: string, { mostBytes = 4 * 1024 * 1024, stays = false }: ReserveOptions = {}) {
    this.#file = `${databaseFile}.${stays ? 'spare' : 'reserve'}`
    this.#mostBytes = mostBytes
    this.#stays = stays
    if (stays && existsSync(this.#file)) this.#state = 'held'
  }

  get spent(): boolean {
    return this.#state === 'spent'
  }

  /** Reserves space if there is enough, also after it was spent. */
  take(): void {
    if (this.#state === 'held') return
    const { bavail, bsize } = statfsSync(path.dirname(this.#file))
    const bytes = Math.min(this.#mostBytes, Math.floor((bavail * bsize) / 8))
    if (bytes < leastBytes) return
    try {
      const fd = openSync(this.#file, 'w', 0o600)
      try {
        // Written blocks, not a sparse file: a hole reserves nothing.
        const block = Buffer.alloc(64 * 1024, 1)
        for (let at = 0; at + block.length <= bytes; at += block.length) writeSync(fd, block)
        fsyncSync(fd)
      } finally {
        closeSync(fd)
      }
      this.#state = 'held'
    } catch {
      rmSync(this.#file, { force: true })
    }
  }

  /** Gives up the reserved space. False when no space was reserved. */
  spend(): boolean {
    if (this.#state !== 'held') return false
    rmSync(this.#file, { force: true })
    this.#state = 'spent'
    return true
  }

  /** At the end of this process. */
  remove(): void {
    if (!this.#stays) rmSync(this.#file, { force: true })
  }
}
