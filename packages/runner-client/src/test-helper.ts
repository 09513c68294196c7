/** A seeded generator (mulberry32): a failing run prints its seed, and SANDKASTEN_FUZZ_SEED repeats it. */
export class Random {
  readonly seed: number
  #state: number

  constructor(seed = Number(process.env.SANDKASTEN_FUZZ_SEED ?? Date.now() % 0x1_0000_0000)) {
    this.seed = seed
    this.#state = seed
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let value = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value
    return (value ^ (value >>> 14)) >>> 0
  }

  below(limit: number): number {
    return this.next() % limit
  }

  bytes(length: number): Buffer {
    return Buffer.from(Array.from({ length }, () => this.below(256)))
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T
  }
}
