import { expect, test } from 'vitest'
import { sandboxKey } from './preview.ts'

test('K18: keys are namespaced, and an id cannot reach another tenant’s keys', () => {
  expect(sandboxKey('shell', 'u42')).toBe('shell-u42')
  expect(sandboxKey('shell', '3f2a-99')).toBe('shell-3f2a-99')
  for (const id of ['', '../u43', 'U42', 'a b', 'a.b', '-a', 'a-', 'a--b', 'ü', 'a\n', 'x'.repeat(40)]) {
    expect(() => sandboxKey('shell', id), JSON.stringify(id)).toThrow()
  }
  for (const prefix of ['', 'a-b', '1a', 'A']) expect(() => sandboxKey(prefix, 'u'), prefix).toThrow(/prefix/)
})
