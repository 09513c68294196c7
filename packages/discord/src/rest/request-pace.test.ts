import { expect, it } from 'vitest'
import { RequestPace } from './request-pace.ts'

/** The times of requests that all want to be sent at `start`, with a clock that may stand still. */
function timesOf(
  count: number,
  { start = 0, stalls = () => 0 }: { start?: number; stalls?: (now: number) => number } = {},
) {
  const pace = new RequestPace()
  const times: number[] = []
  let now = start
  while (times.length < count) {
    const wait = pace.wait(now)
    if (wait > 0) now += wait + stalls(now)
    else {
      pace.take(now)
      times.push(now)
    }
  }
  return times
}

const mostInSecond = (times: readonly number[]) =>
  Math.max(...times.map((from) => times.filter((time) => time >= from && time < from + 1000).length))

it('lets a burst pass, and no second has more than 36 requests', () => {
  const times = timesOf(300)
  expect(times.filter((time) => time === 0)).toHaveLength(6)
  expect(mostInSecond(times)).toBeLessThanOrEqual(37)
  expect(times.at(-1)).toBeLessThan(10_000)
})

it('does not release what has waited at once, after a pause of the process', () => {
  const times = timesOf(300, { start: 60_000, stalls: (now) => (Math.floor(now) % 7 === 0 ? 900 : 0) })
  expect(mostInSecond(times)).toBeLessThanOrEqual(37)
})
