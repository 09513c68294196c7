import { describe, expect, it } from 'vitest'
import { cleanOutput, oneLine, shortened, shownName, sizeText } from './text.ts'

describe('cleanOutput', () => {
  it.each([
    ['\u001b[31mred\u001b[0m', 'red'],
    ['a\r\nb\r\n', 'a\nb\n'],
    ['10%\r50%\r100%\ndone\n', '100%\ndone\n'],
    ['10%\r50%\r', '50%'],
    ['bell\u0007, back\b, nul\0, tab\t.', 'bell, back, nul, tab\t.'],
    ['\u001b]0;title\u0007text', 'text'],
    ['\u009b31mc1', 'c1'],
  ])('%j is %j', (given, clean) => {
    expect(cleanOutput(given)).toBe(clean)
  })
})

describe('shortened', () => {
  it('keeps head and tail, in lines and in characters', () => {
    expect(shortened('short', 10)).toBe('short')
    expect(shortened('0123456789', 4)).toBe('01\n[… 6 characters left out …]\n89')
    const lines = Array.from({ length: 100 }, (_, at) => `${at}`).join('\n')
    expect(shortened(lines, 1_000, 4)).toBe('0\n1\n[… 96 lines left out …]\n98\n99')
  })

  it('never splits a surrogate pair', () => {
    expect(shortened('😀'.repeat(10), 5)).not.toMatch(
      /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/,
    )
  })
})

it('names and messages stay one line', () => {
  expect(oneLine(' a\n b\u2028c ')).toBe('a b c')
  // A file can have a line of 4 MB. Cleaning all of it would take an hour.
  expect(oneLine(`begin ${'\u001b]'.repeat(2_000_000)}`)).toMatch(/^begin.*…$/)
  expect(oneLine('x'.repeat(300))).toHaveLength(200)
  expect(shownName('plain name')).toBe('plain name')
  expect(shownName('a\nb')).toBe('"a\\nb"')
  // A name with reversed direction would be shown in another order.
  expect(shownName('a\u202eb')).toMatch(/^".*"$/)
})

it('sizes', () => {
  expect([0, 1023, 1024, 1536, 1024 ** 3].map(sizeText)).toEqual([
    '0 B',
    '1023 B',
    '1.0 KiB',
    '1.5 KiB',
    '1.0 GiB',
  ])
})
