import { describe, expect, it } from 'vitest'
import { matcher } from './glob.ts'

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
