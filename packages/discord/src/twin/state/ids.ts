const DISCORD_EPOCH = 1_420_070_400_000

/** Makes snowflakes: Discord's ids, which ascend and carry the time of their creation. */
export function createIds(now: () => number): () => string {
  let last = 0n
  return () => {
    const id = BigInt(now() - DISCORD_EPOCH) << 22n
    last = id > last ? id : last + 1n
    return String(last)
  }
}

export function compareIds(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : a > b ? 1 : 0)
}
