import { describe, expect, it } from 'vitest'
import { textOf } from './log-text.ts'

const line = (entry: object) => JSON.stringify({ level: 30, time: 0, ...entry })
const at = '\\d\\d:\\d\\d:\\d\\d\\.\\d{3}'

describe('a log line for people', () => {
  it('has time, level, message and facts', () => {
    expect(textOf(line({ url: 'http://127.0.0.1:1', count: 3, why: 'two words', msg: 'listening' }))).toMatch(
      new RegExp(`^${at} INFO  listening url=http://127.0.0.1:1 count=3 why="two words"\n$`),
    )
    expect(textOf(line({ steps: { rowMs: 1.7084759999997914 }, msg: 'x' }))).toContain('steps={"rowMs":1.7}')
    expect(textOf(line({ level: 50, msg: 'x' }))).toContain(' ERROR x\n')
  })

  it('shows an error with its stack, indented', () => {
    const text = textOf(
      line({ level: 40, err: { message: 'm', stack: 'Error: m\n    at one\n    at two' }, msg: 'x' }),
    )
    expect(text).toContain(' WARN  x\n    Error: m\n    at one\n    at two\n')
  })

  it('escapes control characters', () => {
    const hostile = '\x1b]0;title\x07\r\n\x9b31m\u202e'
    const text = textOf(line({ [hostile]: 1, name: hostile, msg: hostile, err: { stack: hostile } }), {})
    expect(text.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\u202e]/u)
    expect(textOf(line({ msg: 'plain' }), { colors: true })).toContain('\x1b[32mINFO')
  })

  it('passes on lines that are not JSON', () => {
    expect(textOf('no json\x1b')).toBe('no json\\u001b\n')
  })
})
