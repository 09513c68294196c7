/** A seeded generator (mulberry32): repeat a failing run with SANDKASTEN_SEED=<the printed seed>. */
export interface Random {
  seed: number
  /** From 0 to 1. */
  next(): number
  below(limit: number): number
  pick<T>(list: readonly T[]): T
}

export function random(seed: number): Random {
  let state = seed
  const next = () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
  const below = (limit: number) => Math.floor(next() * limit)
  return { seed, next, below, pick: (list) => list[below(list.length)]! }
}

export function seeds(count: number): number[] {
  const fixed = process.env.SANDKASTEN_SEED
  if (fixed) return [Number(fixed)]
  const start = Date.now() % 1_000_000_000
  return Array.from({ length: count }, (_, index) => start + index)
}
