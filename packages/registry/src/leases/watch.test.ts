import { afterEach, expect, it, vi } from 'vitest'
import { BeatWatch, silentMs } from './watch.ts'

afterEach(() => void vi.useRealTimers())

it('calls a holder silent when its beat stays the same for longer than the limit', () => {
  let now = 0
  const watch = new BeatWatch(() => now)
  expect(watch.isSilent('a', '1')).toBe(false)
  now += silentMs
  expect(watch.isSilent('a', '1')).toBe(false)
  now += 1
  expect(watch.isSilent('a', '1')).toBe(true)
  expect(watch.isSilent('a', '2')).toBe(false)
  now += silentMs + 1
  watch.forget('a')
  expect(watch.isSilent('a', '2')).toBe(false)
})

it('takes no notice of a wall clock that jumps', () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  const watch = new BeatWatch()
  expect(watch.isSilent('a', '1')).toBe(false)
  for (const jump of [365 * 86_400_000, -1_000 * 86_400_000]) {
    vi.setSystemTime(Date.now() + jump)
    expect(watch.isSilent('a', '1')).toBe(false)
  }
})

it('forgets the oldest observations when there are many', () => {
  let now = 0
  const watch = new BeatWatch(() => now)
  watch.isSilent('old', '1')
  for (let at = 0; at < 10_000; at += 1) watch.isSilent(`k${at}`, '1')
  now += silentMs + 1
  expect(watch.isSilent('k9999', '1')).toBe(true)
  expect(watch.isSilent('old', '1')).toBe(false)
})
