import { randomInt } from 'node:crypto'
import { SandboxError } from '@sandkasten/sdk'
import { adjectives, animals } from './words.ts'

/** Returns the name. Throws `invalid_argument` if a sandbox cannot have it. */
export function checkName(name: unknown): string {
  if (typeof name === 'string' && /^[a-z0-9][a-z0-9._-]{0,62}$/.test(name)) return name
  const shown = typeof name === 'string' && /^[\x20-\x7e]{1,80}$/.test(name) ? `“${name}”` : 'This'
  throw new SandboxError('invalid_argument', `${shown} cannot be the name of a sandbox.`, {
    hint: 'Use 1 to 63 characters: a to z, 0 to 9, dots, underscores and hyphens. The first is a letter or a digit.',
  })
}

/** A readable name that is not in `taken`, such as `brave-otter`. `random` returns a whole number below its argument. */
export function freeName(taken: Iterable<string>, random: (below: number) => number = randomInt): string {
  const used = new Set(taken)
  let name = ''
  // With more than 4,000 names, eight tries are enough while fewer than half of them are taken.
  for (let tries = 0; tries < 8; tries += 1) {
    name = `${adjectives[random(adjectives.length)]}-${animals[random(animals.length)]}`
    if (!used.has(name)) return name
  }
  for (let number = 2; ; number += 1) if (!used.has(`${name}-${number}`)) return `${name}-${number}`
}

/** Names that a user may have meant: at most two edits away, or with the same beginning. The nearest come first. */
export function suggest(name: string, names: Iterable<string>): string[] {
  const word = name.slice(0, 100).toLowerCase()
  const scored: Array<{ other: string; far: number }> = []
  for (const other of names) {
    const far = distance(word, other.toLowerCase())
    const isNear =
      far <= (word.length < 4 ? 1 : 2) || (word.length > 2 && other.toLowerCase().startsWith(word))
    if (isNear) scored.push({ other, far })
  }
  return scored
    .sort((a, b) => a.far - b.far || (a.other < b.other ? -1 : 1))
    .slice(0, 3)
    .map(({ other }) => other)
}

/** The edit distance; two letters in the wrong order count as one edit. */
function distance(a: string, b: string): number {
  let before: number[] = []
  let row = Array.from({ length: b.length + 1 }, (_, at) => at)
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i]
    for (let j = 1; j <= b.length; j += 1) {
      next[j] = Math.min(next[j - 1]! + 1, row[j]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        next[j] = Math.min(next[j]!, before[j - 2]! + 1)
    }
    before = row
    row = next
  }
  return row[b.length]!
}
