import { describe, expect, it } from 'vitest'
import { applyEdit, type Edit } from './edit.ts'

const edit = (text: string, oldString: string, newString: string, more: Partial<Edit> = {}) =>
  applyEdit(text, { oldString, newString, replaceAll: false, ...more })

describe('applyEdit', () => {
  it('replaces what occurs once, and nothing that looks like a pattern', () => {
    expect(edit('a\nb.c\nd', 'b.c', '$& $1 \\n')).toEqual({
      text: 'a\n$& $1 \\n\nd',
      replaced: 1,
      lines: [2],
    })
    expect(edit('bxc', 'b.c', 'x')).toHaveProperty('problem')
    expect(edit('one\ntwo\n', 'one\ntwo\n', '')).toMatchObject({ text: '', lines: [1] })
  })

  it('says how often and where an ambiguous text occurs', () => {
    expect(edit('x\ny\nx\n', 'x', 'z')).toEqual({
      problem: expect.stringMatching(/^oldString occurs 2 times in FILE, at lines 1, 3\. .* replaceAll\.$/),
    })
    expect(edit('x\ny\nx\n', 'x', 'z', { replaceAll: true })).toEqual({
      text: 'z\ny\nz\n',
      replaced: 2,
      lines: [1, 3],
    })
    const many = edit('x\n'.repeat(1000), 'x', 'z')
    expect(many).toEqual({ problem: expect.stringContaining('1000 times') })
    expect(JSON.stringify(many).length).toBeLessThan(300)
  })

  it('counts occurrences that do not overlap', () => {
    expect(edit('aaa', 'aa', 'b', { replaceAll: true })).toEqual({ text: 'ba', replaced: 1, lines: [1] })
  })

  it('finds an absent text with other spaces', () => {
    expect(edit('if (x) {\n\treturn 1\n}\n', 'if (x) {\n  return 1', 'y')).toEqual({
      problem: expect.stringMatching(
        /does not occur in FILE \(3 lines\)\. It occurs with other spaces at line 1:/,
      ),
    })
    expect(edit('a\n', 'b', 'c')).toEqual({ problem: expect.stringContaining('copy the text exactly') })
    expect(edit('a', 'a', 'a')).toEqual({ problem: expect.stringContaining('the same') })
  })

  it('keeps Windows line endings', () => {
    expect(edit('a\r\nb\r\nc\r\n', 'a\nb', 'x\ny')).toMatchObject({ text: 'x\r\ny\r\nc\r\n' })
    expect(edit('a\nb\r\n', 'a\nb', 'x')).toHaveProperty('problem')
  })

  it('takes bounded time for texts made of one character', () => {
    const startedAt = performance.now()
    edit('a'.repeat(8_000_000), `b${'a'.repeat(99_000)}`, 'c')
    edit('a\n'.repeat(4_000_000), `${'a\n'.repeat(49_000)}b`, 'c')
    expect(performance.now() - startedAt).toBeLessThan(15_000)
  })
})
