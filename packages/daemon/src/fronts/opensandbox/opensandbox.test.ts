import type { ProcessEvent } from '@sandkasten/sdk'
import { describe, expect, it } from 'vitest'
import { textSoFar } from './code/current-output.ts'
import { Lines } from './code/line-splitter.ts'
import { matcher } from './filesystem/glob.ts'
import { limitsOf } from './limits.ts'
import { policyOf } from './network.ts'
import { networkPolicy } from './schemas.ts'

const bytes = (text: string) => Buffer.from(text)

describe('lines of output', () => {
  it('are complete and without line ends, wherever chunks were split', () => {
    const text = bytes('aä\r\n\nlast')
    for (let cut = 0; cut <= text.length; cut += 1) {
      const lines = new Lines()
      const all = [...lines.push(text.subarray(0, cut)), ...lines.push(text.subarray(cut)), ...lines.end()]
      expect(all).toEqual(['aä', '\n', 'last'])
    }
  })

  it('without an end are split at a maximum length', () => {
    const lines = new Lines()
    const cut = lines.push(Buffer.alloc(200_000, 'x'))
    expect(cut.map((line) => line.length)).toEqual([65_536, 65_536, 65_536])
    expect(lines.end()).toEqual(['x'.repeat(200_000 - 3 * 65_536)])
  })
})

describe('the output so far', () => {
  const say = (seq: number, type: 'stdout' | 'stderr', data: Uint8Array): ProcessEvent => ({
    seq,
    type,
    data,
  })
  const source = (events: ProcessEvent[], ends: boolean) =>
    async function* (signal: AbortSignal): AsyncGenerator<ProcessEvent> {
      yield* events
      if (!ends) await new Promise((resolve) => signal.addEventListener('abort', resolve))
    }
  const never = new AbortController().signal

  it('ends before an incomplete character, which comes with the next response', async () => {
    const [first, second] = [bytes('a€').subarray(0, 2), bytes('a€').subarray(2)]
    const begun = [say(1, 'stdout', bytes('one ')), say(2, 'stdout', first)]
    expect(await textSoFar(source(begun, false), 0, never)).toEqual({ text: 'one ', cursor: 1 })
    const more = [say(2, 'stdout', first), say(3, 'stderr', bytes('!')), say(4, 'stdout', second)]
    expect(await textSoFar(source(more, false), 1, never)).toEqual({ text: 'a!€', cursor: 4 })
    expect(await textSoFar(source([], false), 4, never)).toEqual({ text: '', cursor: 4 })
  })

  it('is complete once the command has ended', async () => {
    const exit = { seq: 3, type: 'exit', exitCode: 0, timedOut: false, durationMs: 1 } as const
    const events = [say(1, 'stdout', bytes('x')), say(2, 'stdout', Buffer.from([0xe2, 0x82])), exit]
    expect(await textSoFar(source(events, true), 0, never)).toEqual({ text: 'x\uFFFD', cursor: 2 })
  })
})

describe('patterns', () => {
  it.each([
    ['*.txt', 'a/b/c.txt', true],
    ['*.txt', 'c.txt.gz', false],
    ['a/*.txt', 'a/b/c.txt', false],
    ['a/**/*.txt', 'a/c.txt', true],
    ['a/**/*.txt', 'a/b/d/c.txt', true],
    ['**', 'anything/at all', true],
    ['{a,b}?.[ch]', 'x/b1.h', true],
    ['[!a]*', 'abc', false],
    ['a+(b).$', 'a+(b).$', true],
    ['a.c', 'abc', false],
    ['**/c', 'c', true],
    ['**/c', 'a/b/c', true],
    ['a/**/c', 'a/xc', false],
    ['a/**', 'a/b/c', true],
    ['?', 'ü', true],
    ['😀*', '😀x', true],
    ['[a-c]x', 'bx', true],
    ['{', '{', true],
  ])('%s of %s: %s', (pattern, file, matches) => {
    expect(matcher(pattern)(file)).toBe(matches)
  })

  it('that are invalid are refused, and none takes long', () => {
    expect(() => matcher('[z-a]')).toThrow('is not valid')
    expect(() => matcher('x'.repeat(501))).toThrow('is not valid')
    expect(() => matcher('{a,b}'.repeat(10))).toThrow('is not valid')
    // With backtracking this would never finish.
    expect(matcher(`${'*a'.repeat(200)}b`)('a'.repeat(4000))).toBe(false)
    expect(matcher(`${'**/'.repeat(160)}b`)('a/'.repeat(2000))).toBe(false)
  })
})

describe('limits and policies', () => {
  it('are read as Kubernetes writes them', () => {
    expect(limitsOf({ cpu: '1500m', memory: '2Gi', disk: '1G' })).toEqual({
      cpu: 1.5,
      memoryMb: 2048,
      diskMb: 954,
    })
    for (const cpu of ['', '-1', '0', '1 core', '1e9'])
      expect(() => limitsOf({ cpu })).toThrow('not a quantity')
    expect(() => limitsOf({ gpu: '1' })).toThrow('not supported')
  })

  it('map to a network or none, or are refused', () => {
    const policy = (given: object) => networkPolicy.parse(given)
    expect(policyOf(undefined)).toBeUndefined()
    expect(policyOf(policy({}))).toBe('deny-all')
    expect(policyOf(policy({ defaultAction: 'allow' }))).toBe('allow-all')
    expect(policyOf({ defaultAction: 'deny', egress: [{ action: 'deny', target: 'x' }] })).toBe('deny-all')
    expect(() => policyOf(policy({ egress: [{ action: 'allow', target: 'x' }] }))).toThrow('not supported')
  })
})
