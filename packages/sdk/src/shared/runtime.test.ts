import { describe, expect, it } from 'vitest'
import { checkRuntimes, hasRuntime, mappedRuntime, noRuntime, parseRuntime, runtimeNames } from './runtime.ts'

describe('runtimes', () => {
  it('are a program and the beginning of its version', () => {
    expect(parseRuntime('python3.13')).toEqual({ program: 'python', version: '3.13' })
    for (const name of ['node', 'node-24', 'cobol85', 'node24.', 'node24 ', 'node99999', ''])
      expect(parseRuntime(name), name).toBeUndefined()
  })

  it('match whole parts of a version', () => {
    const programs = { node: '24.3.0', python: '3.13' }
    for (const name of ['node24', 'node24.3', 'node24.3.0', 'python3', 'python3.13'])
      expect(hasRuntime(programs, name), name).toBe(true)
    for (const name of ['node2', 'node240', 'node24.30', 'node22', 'python3.1', 'python3.13.1', 'deno2'])
      expect(hasRuntime(programs, name), name).toBe(false)
    expect(hasRuntime({}, 'node24')).toBe(false)
    expect(runtimeNames(programs)).toEqual(['node24', 'python3.13'])
  })

  it('come from the option of a provider, or the error names those that do', () => {
    expect(mappedRuntime('e2b', 'node24', { node24: 'mine' }, 'template')).toBe('mine')
    expect(() => mappedRuntime('e2b', 'toString', { node24: 'mine' }, 'template')).toThrow(
      'The provider “e2b” has no runtime “toString”.',
    )
    const { code, hint, details } = noRuntime('x', 'bad\u0007', ['node24'])
    expect([code, hint, details.available]).toEqual(['unsupported', 'It has: node24.', ['node24']])
    for (const wrong of ['text', { node24: 7 }, { node24: '' }, null])
      expect(() => checkRuntimes(wrong as never, 'x'), JSON.stringify(wrong)).toThrow('`runtimes` must be')
  })
})
