import { describe, expect, it } from 'vitest'
import { checkName, freeName, suggest } from './names.ts'
import { adjectives, animals } from './words.ts'

describe('names', () => {
  it.each(['a', '0', 'brave-otter', 'a.b_c-1', 'a'.repeat(63)])('may be %s', (name) => {
    expect(checkName(name)).toBe(name)
  })

  it.each(['', 'A', '-a', '.a', 'a b', 'a/b', 'ä', 'a\n', 'a'.repeat(64), 1, undefined, null])(
    'may not be %j',
    (name) => {
      expect(() => checkName(name)).toThrow(expect.objectContaining({ code: 'invalid_argument' }))
    },
  )

  it('that are refused are named in the error only if they can be printed', () => {
    expect(() => checkName('My Box')).toThrow('“My Box” cannot be the name of a sandbox.')
    expect(() => checkName('a\u001b[31m')).toThrow(/^This cannot be/)
    expect(() => checkName('x'.repeat(10_000))).toThrow(/^This cannot be/)
  })
})

describe('a free name', () => {
  it('is readable, allowed, and not taken', () => {
    const taken: string[] = []
    for (let count = 0; count < 500; count += 1) {
      const name = freeName(taken)
      expect(checkName(name)).toMatch(/^[a-z]+-[a-z]+(-\d+)?$/)
      expect(taken).not.toContain(name)
      taken.push(name)
    }
  })

  it('is tried again on a collision, and gets a number when it is crowded', () => {
    const picks = [0, 0, 1, 2]
    const random = () => picks.shift() ?? 0
    const first = `${adjectives[0]}-${animals[0]}`
    expect(freeName([first], random)).toBe(`${adjectives[1]}-${animals[2]}`)
    expect(freeName([first], () => 0)).toBe(`${first}-2`)
    expect(freeName([first, `${first}-2`], () => 0)).toBe(`${first}-3`)
  })

  it('has thousands of choices, each word once', () => {
    expect(new Set(adjectives).size).toBe(adjectives.length)
    expect(new Set(animals).size).toBe(animals.length)
    expect(adjectives.length * animals.length).toBeGreaterThan(4_000)
  })
})

describe('suggestions', () => {
  const names = ['frontend', 'front', 'backend', 'brave-otter', 'db']

  it.each([
    ['frontned', ['frontend']],
    ['Frontend', ['frontend']],
    ['fron', ['front', 'frontend']],
    ['brave-oter', ['brave-otter']],
    ['dd', ['db']],
    ['xyz', []],
    ['', []],
    ['f', []],
  ])('for %s', (name, expected) => {
    expect(suggest(name, names)).toEqual(expected)
  })

  it('are quick for a long word', () => {
    const startedAt = performance.now()
    expect(suggest('x'.repeat(1_000_000), names)).toEqual([])
    expect(performance.now() - startedAt).toBeLessThan(1_000)
  })

  it('are three at most, the nearest first', () => {
    expect(suggest('test1', ['test4', 'test3', 'test2', 'test1', 'test12'])).toEqual([
      'test1',
      'test12',
      'test2',
    ])
  })
})
