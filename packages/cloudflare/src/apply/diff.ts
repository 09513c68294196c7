/** A unified diff for people. Line endings are compared, but not shown. */

const CONTEXT = 3

export function unifiedDiff(before: string, after: string, file: string): string {
  if (before === after) return ''
  const steps = lineSteps(lines(before), lines(after))
  const out = [`--- ${file}`, `+++ ${file}`]
  for (let index = 0; index < steps.length; ) {
    if (steps[index]!.sign === ' ') {
      index++
      continue
    }
    const start = Math.max(0, index - CONTEXT)
    let end = index
    for (let at = index; at < steps.length && at <= end + CONTEXT * 2; at++)
      if (steps[at]!.sign !== ' ') end = at
    const hunk = steps.slice(start, end + CONTEXT + 1)
    const old = hunk.filter(({ sign }) => sign !== '+').length
    const fresh = hunk.filter(({ sign }) => sign !== '-').length
    out.push(`@@ -${hunk[0]!.oldLine},${old} +${hunk[0]!.newLine},${fresh} @@`)
    out.push(...hunk.map(({ sign, text }) => sign + text.replace(/\r$/, '')))
    index = end + CONTEXT + 1
  }
  return `${out.join('\n')}\n`
}

interface Step {
  sign: ' ' | '+' | '-'
  text: string
  oldLine: number
  newLine: number
}

function lines(text: string): string[] {
  const split = text.split('\n')
  if (split.at(-1) === '') split.pop()
  return split
}

/**
 * The longest common subsequence, by table. Common prefixes and suffixes are removed first, so the table stays small.
 */
function lineSteps(a: string[], b: string[]): Step[] {
  let head = 0
  while (head < a.length && head < b.length && a[head] === b[head]) head++
  let tail = 0
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++
  const [oldEnd, newEnd] = [a.length - tail, b.length - tail]
  const table = Array.from({ length: oldEnd - head + 1 }, () => new Uint32Array(newEnd - head + 1))
  for (let i = oldEnd - 1; i >= head; i--) {
    for (let j = newEnd - 1; j >= head; j--) {
      const [row, next] = [table[i - head]!, table[i - head + 1]!]
      row[j - head] = a[i] === b[j] ? next[j - head + 1]! + 1 : Math.max(next[j - head]!, row[j - head + 1]!)
    }
  }
  const steps: Step[] = []
  let [i, j] = [0, 0]
  const push = (sign: Step['sign'], text: string) =>
    steps.push({ sign, text, oldLine: i + 1, newLine: j + 1 })
  while (i < a.length || j < b.length) {
    const inTable = i >= head && j >= head && i <= oldEnd && j <= newEnd && (i < oldEnd || j < newEnd)
    if (!inTable) {
      push(' ', a[i]!)
      i++
      j++
    } else if (i < oldEnd && j < newEnd && a[i] === b[j]) {
      push(' ', a[i]!)
      i++
      j++
    } else if (
      i < oldEnd &&
      (j === newEnd || table[i - head + 1]![j - head]! >= table[i - head]![j - head + 1]!)
    ) {
      push('-', a[i]!)
      i++
    } else {
      push('+', b[j]!)
      j++
    }
  }
  return steps
}
