import { expect, it } from 'vitest'
import { timeOf } from './when.ts'

const now = Date.parse('2030-01-01T00:00:00Z')

it.each([
  ['in 20 minutes', '2030-01-01T00:20:00Z', undefined],
  ['In 1 hour', '2030-01-01T01:00:00Z', undefined],
  ['every 6 hours', '2030-01-01T06:00:00Z', 21_600_000],
  ['every day', '2030-01-02T00:00:00Z', 86_400_000],
  ['2030-01-31T09:00:00Z', '2030-01-31T09:00:00Z', undefined],
  ['2030-01-31T09:00+02:00', '2030-01-31T07:00:00Z', undefined],
])('understands %s', (when, at, everyMs) => {
  expect(timeOf(when, now)).toEqual({ at: new Date(at), ...(everyMs !== undefined && { everyMs }) })
})

it.each([
  '',
  'tomorrow',
  'in minutes',
  'every 99999 hours',
  '2030-01-31',
  '2030-13-01T00:00:00Z',
  '2029-12-31T23:59:59Z',
])('refuses %j', (when) => {
  expect(() => timeOf(when, now)).toThrow(expect.objectContaining({ code: 'invalid_argument' }))
})
