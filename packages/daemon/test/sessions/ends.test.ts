import { MemoryProvider } from '@sandkasten/sdk/memory'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'

const caller = { projectId: 'default', keyId: 'test', scopes: [], requestId: 'test' }

/** The reaper's interval is an hour, so sessions end only by the timer. */
const config = { reaper_interval_seconds: 3600 }

describe('a session at the end of its lease', () => {
  let daemon: TestDaemon
  beforeAll(async () => {
    daemon = await startTestDaemon(config, { provider: new MemoryProvider() as never })
  })
  afterAll(() => daemon?.stop())

  const get = async (id: string) => (await daemon.call('GET', `/v1/sessions/${id}`)).body
  /** Waits for the session's end. Returns how many milliseconds late it was. */
  const lateness = async (id: string, lifetimeMs: number, status = 'expired') => {
    const row = async () => (await daemon.context.store.sessions.get(id))!
    await expect.poll(async () => (await row()).status, { timeout: 10_000, interval: 50 }).toBe(status)
    const { status_at: endedAt, started_at: startedAt } = await row()
    return endedAt - (startedAt + lifetimeMs)
  }

  it('ends within a second among many others, unless it was extended', async () => {
    const lifetimes = Array.from({ length: 150 }, (_, index) => 1 + (index % 3))
    const made = await Promise.all(
      lifetimes.map(async (seconds) => ({
        id: await daemon.session({ lifetime_seconds: seconds }),
        seconds,
      })),
    )
    const extended = await Promise.all(
      lifetimes.slice(0, 10).map(() => daemon.session({ lifetime_seconds: 2 })),
    )
    for (const id of extended) await daemon.call('POST', `/v1/sessions/${id}/extend`, { ttl_seconds: 600 })
    const late = await Promise.all(made.map(({ id, seconds }) => lateness(id, seconds * 1000)))
    expect(Math.min(...late)).toBeGreaterThanOrEqual(0)
    expect(Math.max(...late)).toBeLessThan(1000)
    for (const id of extended) expect((await get(id)).status).toBe('running')
  })

  it('ends within a second when its lifetime was shortened, and when it is idle', async () => {
    const shortened = await daemon.session({ lifetime_seconds: 600 })
    await daemon.daemon.sessions.setLifetime(caller, shortened, 1000)
    const idle = await daemon.session({ ttl_seconds: 1, on_idle: 'stop' })
    const { lifetime_ms: lifetimeMs } = (await daemon.context.store.sessions.get(shortened))!
    expect(await lateness(shortened, lifetimeMs!)).toBeLessThan(1000)
    expect(await lateness(idle, 1000, 'stopped')).toBeLessThan(1000)
  })

  it('ends soon after the daemon starts again', async () => {
    const due = await daemon.session({ lifetime_seconds: 1 })
    const later = await daemon.session({ lifetime_seconds: 4 })
    await daemon.daemon.close()
    await new Promise((resolve) => setTimeout(resolve, 1500))
    const startedAt = Date.now()
    await daemon.restart()
    await lateness(due, 1000)
    const { status_at: endedAt } = (await daemon.context.store.sessions.get(due))!
    expect(endedAt - startedAt).toBeLessThan(2000)
    expect(await lateness(later, 4000)).toBeLessThan(1000)
  })
})

describe('a slow end of a session', () => {
  it('does not delay the others', async () => {
    const provider = new MemoryProvider()
    const slow = Promise.withResolvers<void>()
    const destroy = provider.destroy.bind(provider)
    const stuck = new Set<string>()
    provider.destroy = async (id: string) => {
      if (stuck.has(id)) await slow.promise
      return destroy(id)
    }
    const daemon = await startTestDaemon(config, { provider: provider as never })
    try {
      const { store } = daemon.context
      const first = await daemon.session({ lifetime_seconds: 1 })
      stuck.add((await store.sessions.get(first))!.sandbox_id!)
      const second = await daemon.session({ lifetime_seconds: 2 })
      await expect.poll(async () => (await store.sessions.get(second))!.status).toBe('expired')
      const { status_at: endedAt, started_at: startedAt } = (await store.sessions.get(second))!
      expect(endedAt - startedAt - 2000).toBeLessThan(1000)
    } finally {
      slow.resolve()
      await daemon.stop()
    }
  })
})

describe('a clock that jumps', () => {
  it('is handled once by two concurrent checks', async () => {
    const daemon = await startTestDaemon(config, { provider: new MemoryProvider() as never })
    try {
      const id = await daemon.session({ lifetime_seconds: 600 })
      const { context } = daemon
      const { leases } = daemon.daemon.sessions
      const before = (await context.store.sessions.get(id))!.started_at
      const [wall, passed] = [Date.now(), performance.now()]
      await leases.mindTheClock(wall, passed)
      const hour = 3_600_000
      const jumps = await Promise.all([
        leases.mindTheClock(wall + hour, passed),
        leases.mindTheClock(wall + hour, passed),
      ])
      expect(jumps).toEqual([hour, 0])
      expect((await context.store.sessions.get(id))!.started_at).toBe(before + hour)
    } finally {
      await daemon.stop()
    }
  })
})
