import { relative, sep } from 'node:path'

/** `to` relative to the folder `from`, with forward slashes on every system. */
export function posixRelative(from: string, to: string): string {
  return relative(from, to).split(sep).join('/')
}

/** The same with `./`, which distinguishes a path from an image reference or a package name. */
export function dotRelative(from: string, to: string): string {
  const path = posixRelative(from, to)
  return path.startsWith('../') ? path : `./${path}`
}

export function nearest(word: string, known: readonly string[], limit = 2): string | undefined {
  const plain = (text: string) => text.toLowerCase().replace(/[_-]/g, '')
  let best: { word: string; distance: number } | undefined
  for (const candidate of known) {
    const distance = editDistance(plain(word), plain(candidate))
    if (distance <= limit && (!best || distance < best.distance)) best = { word: candidate, distance }
  }
  return best?.word
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const substitution = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, substitution))
    }
    row = next
  }
  return row[b.length]!
}
