/** K1 with random comments and blanks at token boundaries of every specimen: add, then undo. */
import { createScanner, parse } from 'jsonc-parser'
import { expect, test } from 'vitest'
import { type Random, random, seeds } from '../../../test/random.ts'
import { applyEdits } from '../src/apply/apply.ts'
import type { Edit } from '../src/plan/edits.ts'
import { plan } from '../src/plan/plan.ts'
import { emptyRecord } from '../src/plan/record.ts'
import { CORPUS } from './corpus.ts'

const TRIVIA = [
  ' ',
  '  ',
  '\n',
  '\n\n  ',
  '\t',
  '/* c */',
  ' /* a, b ] } */ ',
  ' // c\n',
  '// "x": [\n\t',
  '\n// d\n',
]
const SPECIMENS = CORPUS.filter(
  ({ text }) => text.includes('{') && !text.startsWith('\ufeff') && !text.includes('\r'),
)

test('adding keeps every byte, a second plan is empty, and undoing restores every token and comment', () => {
  for (const seed of seeds(400)) {
    const rng = random(seed)
    const before = sprinkle(rng.pick(SPECIMENS).text, rng)
    try {
      check(before)
    } catch (error) {
      throw new Error(`SANDKASTEN_SEED=${seed}\n${before}`, { cause: error })
    }
  }
})

function check(before: string): void {
  const first = planFor(before, ['shell', 'tool'])
  const after = applyEdits(before, first.edits, 'w')
  // Blanks in empty brackets do not count. If a list gets one line per entry, line breaks replace the blanks inside
  // its brackets and after its commas.
  const kept = before
    .replace(/([[{])\s+([\]}])/g, '$1$2')
    .replace(/([[{,])[ \t]+/g, '$1')
    .replace(/[ \t]+([\]}])/g, '$1')
  expect(isSubsequence(kept, after), after).toBe(true)
  const second = plan({ ...inputFor(after, ['shell', 'tool']), record: first.record })
  expect(second.edits).toEqual([])
  const removal = plan({ ...inputFor(after, []), record: first.record })
  const removed = applyEdits(after, removal.edits, 'w')
  const old = value(before).migrations
  const count = value(after).migrations?.length ?? 0
  const undo: Edit[] = []
  for (let index = count - 1; index >= (old?.length ?? 0); index--)
    undo.push({ op: 'remove', path: ['migrations', index], why: '' })
  if (!old) undo.push({ op: 'prune', path: ['migrations'], why: '' })
  expect(tokens(applyEdits(removed, undo, 'w')), `after:\n${after}`).toEqual(tokens(before))
}

function planFor(text: string, names: string[]) {
  return plan({ ...inputFor(text, names), record: emptyRecord() })
}

function inputFor(text: string, names: string[]) {
  const sources = names.map((name) => ({
    path: `/p/src/server/${name}.sandbox.ts`,
    file: `src/server/${name}.sandbox.ts`,
    baseName: name,
    className: name === 'shell' ? 'ShellSandbox' : 'ToolSandbox',
    place: { file: name },
    statics: {},
    imageFiles: [],
    sdkVersion: '1.0.0',
    readFrom: [],
  }))
  return {
    sources,
    config: value(text),
    record: emptyRecord(),
    configDir: '/p',
    where: () => ({ file: 'w' }),
    today: '2026-03-04',
  }
}

function sprinkle(text: string, rng: Random): string {
  const scanner = createScanner(text, false)
  let result = ''
  for (let end = 0; ; ) {
    scanner.scan()
    const start = scanner.getTokenOffset()
    result += text.slice(end, start)
    end = start + scanner.getTokenLength()
    if (start >= text.length) return result
    // Never inside a token, so that a comment stays a comment.
    if (rng.below(12) === 0 && !result.endsWith('/')) result += rng.pick(TRIVIA)
    result += text.slice(start, end)
  }
}

function value(text: string) {
  return parse(text, [], { allowTrailingComma: true }) ?? {}
}

function isSubsequence(inner: string, outer: string): boolean {
  let at = 0
  for (const char of outer) if (char === inner[at]) at++
  return at === inner.length
}

/** Every token and comment; in such layouts one of our line breaks may stay. */
function tokens(text: string): string[] {
  const scanner = createScanner(text, false)
  const found: string[] = []
  while (Number(scanner.scan()) !== 17) found.push(scanner.getTokenValue())
  return found.filter((token) => token.trim() !== '')
}
