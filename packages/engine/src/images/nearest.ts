/** Suggestions for a misspelled word: at most two edits away, or with the same beginning. */
export function nearest(word: string, words: readonly string[]): string[] {
  const near = words.map((other) => ({ other, distance: distance(word, other) }))
  return near
    .filter(({ other, distance }) => distance <= 2 || (word.length > 2 && other.startsWith(word)))
    .sort((one, another) => one.distance - another.distance)
    .map(({ other }) => other)
    .slice(0, 3)
}

/** The edit distance. */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (let i = 1; i <= one.length; i += 1) {
    const next = [i]
    for (let j = 1; j <= other.length; j += 1) {
      const changed = row[j - 1]! + (one[i - 1] === other[j - 1] ? 0 : 1)
      next.push(Math.min(changed, row[j]! + 1, next[j - 1]! + 1))
    }
    row = next
  }
  return row[other.length]!
}
