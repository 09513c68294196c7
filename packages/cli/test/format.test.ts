import { describe, expect, it } from 'vitest'
import { durationText, sizeText, timeText, wrap } from '../src/format.ts'
import { parseDuration } from '../src/options.ts'
import { Meter } from '../src/progress.ts'
import { table } from '../src/table.ts'

describe('text formatting', () => {
  it.each([
    [0, '0 B'],
    [1023, '1023 B'],
    [1024, '1.0 KiB'],
    [536_870_912, '512.0 MiB'],
    [2 ** 31, '2.0 GiB'],
  ])('a size of %d is %s', (bytes, text) => expect(sizeText(bytes)).toBe(text))

  it.each([
    [0.4, '0 s'],
    [90, '1 min 30 s'],
    [3600, '1 h'],
    [5400, '1 h 30 min'],
    [90_000, '1 d 1 h'],
  ])('%d seconds are %s', (seconds, text) => expect(durationText(seconds)).toBe(text))

  it.each([
    ['90', 90],
    ['90s', 90],
    ['30m', 1800],
    ['1.5h', 5400],
    ['7d', 604_800],
  ])('the duration %s is %d seconds', (text, seconds) => expect(parseDuration(text)).toBe(seconds))

  it.each(['', '0', '-1', '5x', 'NaN', '1h30m', 'Infinity', '1e9'])('“%s” is not a duration', (text) =>
    expect(() => parseDuration(text)).toThrow(/30m/),
  )

  it.each([
    [0, 'now'],
    [-5_000, '5 s ago'],
    [-180_000, '3 min ago'],
    [-7_200_000, '2 h ago'],
    [-86_400_000 * 3, '3 d ago'],
    [7_199_900, 'in 2 h'],
  ])('a time %d ms away is %s', (offset, text) => {
    const now = Date.parse('2026-01-01T00:00:00Z')
    const time = new Date(now + offset).toISOString()
    expect(timeText(time, { now })).toBe(text)
    expect(timeText(time, { now, iso: true })).toBe(time)
  })

  it('wraps between words, and keeps ids and paths whole', () => {
    const text =
      'sandkasten: the file /a/very/long/path/that/is/longer/than/the/line was not found in the session.'
    const lines = wrap(text, 30, '  ').split('\n')
    expect(lines.join(' ').replace(/ +/g, ' ')).toBe(text)
    for (const line of lines) expect(line.length <= 30 || line.trim().startsWith('/a/very')).toBe(true)
    expect(wrap(text, undefined)).toBe(text)
  })
})

describe('a table', () => {
  const columns = [
    'ID',
    { title: 'NAME', min: 8 },
    'STATUS',
    { title: 'IMAGE', min: 8, drop: 2 },
    { title: 'CREATED', drop: 1 },
  ]
  const rows = [
    [
      'ea3onomrth7xdugx',
      'a-name-that-is-rather-long-for-a-table',
      'running',
      'registry.example/image:1',
      '3 min ago',
    ],
    ['mrmvdwn6hfm5txdu', null, 'stopped', 'host', '2 d ago'],
  ]

  it.each([200, 80, 60, 40])('fits into %d columns, and keeps ids whole', (width) => {
    const lines = table(columns, rows, width).split('\n')
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(width)
    expect(lines[1]).toMatch(/^ea3onomrth7xdugx {2}\S/)
    expect(lines[2]).toMatch(/^mrmvdwn6hfm5txdu {2}– +stopped/)
  })

  it('is complete without a terminal', () => {
    expect(table(columns, rows, undefined).split('\n')[1]).toBe(rows[0]!.join('  '))
  })

  it('removes control characters from values', () => {
    expect(table(['A'], [['\x1b[2Jx\ny\u0007']], 80)).toBe('A\n·[2Jx y·')
  })
})

describe('a meter', () => {
  it('shows bytes, percent and rate', () => {
    const meter = new Meter()
    meter.total = 4 * 1_048_576
    expect(meter.line(0)).toBe('0 B of 4.0 MiB, 0 %')
    meter.add(1_048_576)
    expect(meter.line(500)).toBe('1.0 MiB of 4.0 MiB, 25 %, 2.0 MiB/s')
    const unknown = new Meter()
    unknown.line(0)
    unknown.add(2048)
    expect(unknown.line(2000)).toBe('2.0 KiB, 1.0 KiB/s')
  })
})
