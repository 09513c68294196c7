import { describe, expect, it } from 'vitest'
import { fits } from './policy.ts'

describe('patterns for images', () => {
  it.each([
    ['python', 'python', true],
    ['python', 'python:3', false],
    ['python:*', 'python:3.13', true],
    ['python:*', 'python:', true],
    ['python:*', 'xpython:3', false],
    ['*', 'anything/at:all', true],
    ['*/team-*/*:1', 'registry/team-a/x:1', true],
    ['*/team-*/*:1', 'registry/team-a/x:2', false],
    ['a*a', 'a', false],
    ['a*a', 'aa', true],
    ['a*ab*b', 'aab', false],
    ['a*ab*b', 'aabb', true],
    ['a.c', 'abc', false],
  ])('%s and %s: %s', (pattern, image, expected) => {
    expect(fits([pattern], image)).toBe(expected)
  })

  it('need no backtracking', () => {
    const startedAt = performance.now()
    expect(fits([`${'*a'.repeat(249)}*b`], 'a'.repeat(500))).toBe(false)
    expect(performance.now() - startedAt).toBeLessThan(100)
  })
})
