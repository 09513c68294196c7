import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { EndTimer } from './end-timer.ts'
import type { Leased } from './scheduled-ends.ts'

const day = 86_400_000

function session(lifetimeMs: number | null, changes: Partial<Leased> = {}): Leased {
  return {
    id: 'a',
    status: 'running',
    status_at: Date.now(),
    started_at: Date.now(),
    last_activity: Date.now(),
    ttl_ms: 1000 * day,
    on_idle: 'destroy',
    lifetime_ms: lifetimeMs,
    on_lifetime: 'destroy',
    stopped_ttl_ms: null,
    ...changes,
  }
}

describe('EndTimer', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  const started = () => {
    const timer = new EndTimer()
    const onDue = vi.fn()
    return { timer, onDue, stop: timer.start(onDue) }
  }

  it('fires for the earliest end, with one timer', async () => {
    const { timer, onDue } = started()
    for (let index = 0; index < 1000; index += 1) timer.note(session(5000 + index))
    timer.note(session(2000))
    expect(vi.getTimerCount()).toBe(1)
    await vi.advanceTimersByTimeAsync(1999)
    expect(onDue).toHaveBeenCalledTimes(0)
    await vi.advanceTimersByTimeAsync(1)
    expect(onDue).toHaveBeenCalledTimes(1)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('keeps ends that were noted before the start', async () => {
    const timer = new EndTimer()
    timer.note(session(2000))
    const onDue = vi.fn()
    timer.start(onDue)
    await vi.advanceTimersByTimeAsync(2000)
    expect(onDue).toHaveBeenCalledTimes(1)
  })

  it('handles times beyond the limit of timers, and past times', async () => {
    const { timer, onDue } = started()
    timer.note(session(50 * day))
    await vi.advanceTimersByTimeAsync(59_000)
    expect(onDue).toHaveBeenCalledTimes(0)
    // Fires once a minute, so that a changed clock is noticed soon.
    await vi.advanceTimersByTimeAsync(1000)
    expect(onDue).toHaveBeenCalledTimes(1)
    timer.at(Date.now() - day)
    await vi.advanceTimersByTimeAsync(199)
    expect(onDue).toHaveBeenCalledTimes(1)
    await vi.advanceTimersByTimeAsync(1)
    expect(onDue).toHaveBeenCalledTimes(2)
  })

  it('knows the end of each kind, or undefined', async () => {
    const { timer, onDue, stop } = started()
    timer.note(session(null, { status: 'stopped' }))
    timer.note(session(1000, { status: 'paused', on_lifetime: 'pause', on_idle: 'pause' }))
    timer.note(session(1000, { status: 'creating' }))
    timer.note(session(1000, { status: 'expired' }))
    expect(vi.getTimerCount()).toBe(0)
    timer.note(session(null, { status: 'stopped', stopped_ttl_ms: 3000 }))
    await vi.advanceTimersByTimeAsync(3000)
    timer.note(session(null, { ttl_ms: 2000 }))
    await vi.advanceTimersByTimeAsync(2000)
    expect(onDue).toHaveBeenCalledTimes(2)
    timer.note(session(1000))
    stop()
    expect(vi.getTimerCount()).toBe(0)
  })
})
