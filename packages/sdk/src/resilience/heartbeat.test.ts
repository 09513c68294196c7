import { afterEach, describe, expect, it } from 'vitest'
import type { SandboxError } from '../errors.ts'
import { ManualClock, MemoryProvider } from '../providers/memory/index.ts'
import { override } from '../shared/override.ts'
import type { SandboxHandle } from '../spec/index.ts'
import { type KeepAlive, type KeepAliveOptions, keepAlive } from './keep-alive.ts'

const minute = 60_000
const leaseMs = 5 * minute
const hearts: KeepAlive[] = []
afterEach(async () => {
  await Promise.all(hearts.splice(0).map((heartbeat) => heartbeat.stop()))
})

async function setUp(lifetimeMs = leaseMs) {
  const clock = new ManualClock(Date.parse('2026-01-01T00:00:00Z'))
  const provider = new MemoryProvider({ clock, seed: 'mem' })
  const real: SandboxHandle = await provider.create(lifetimeMs ? { lifetimeMs } : {})
  const failed: string[] = []
  const saved: string[] = []
  const beat = (sandbox: SandboxHandle, options: KeepAliveOptions = {}) => {
    const heartbeat = keepAlive(sandbox, {
      clock,
      leaseMs,
      onError: (error, { during }) => failed.push(`${during}: ${(error as SandboxError).code}`),
      onSnapshot: (snapshotId) => saved.push(snapshotId),
      ...options,
    })
    hearts.push(heartbeat)
    return heartbeat
  }
  return { clock, provider, real, beat, failed, saved }
}

function counter(clock: ManualClock) {
  const count = { now: 0, most: 0, all: 0 }
  /** Does the work after a delay and ignores the signal. */
  const slowly = async <T>(ms: number, work: () => Promise<T>): Promise<T> => {
    count.now += 1
    count.all += 1
    count.most = Math.max(count.most, count.now)
    await new Promise<void>((resolve) => clock.after(ms, resolve))
    count.now -= 1
    return work()
  }
  return { count, slowly }
}

describe('a provider that ignores signals', () => {
  it('is not called again during a pending beat', async () => {
    const { clock, real, beat, failed } = await setUp()
    const { count, slowly } = counter(clock)
    beat(override(real, { extendTimeout: (ms) => slowly(2 * minute, () => real.extendTimeout(ms)) }))
    await clock.advance(60 * minute)
    expect([count.most, await real.status()]).toEqual([1, 'running'])
    // Each was abandoned, reported, and finished later.
    expect(count.all).toBeGreaterThan(10)
    expect(failed).toHaveLength(count.all - count.now)
    expect(new Set(failed)).toEqual(new Set(['beat: timeout']))
  })

  it('and never answers is abandoned before the sandbox is lost', async () => {
    const { clock, real, beat } = await setUp()
    let calls = 0
    const heartbeat = beat(
      override(real, {
        extendTimeout: (ms) => {
          calls += 1
          return calls % 3 === 1 ? new Promise(() => {}) : real.extendTimeout(ms)
        },
      }),
    )
    await clock.advance(60 * minute)
    expect([calls > 10, await real.status()]).toEqual([true, 'running'])
    // After the end, nothing waits for it.
    expect(await heartbeat.stop()).toMatchObject({ reason: 'closed' })
    expect(clock.pending).toBe(1)
  })

  it('takes one snapshot at a time, and a late one counts', async () => {
    const { clock, provider, real, beat, failed, saved } = await setUp()
    const { count, slowly } = counter(clock)
    const slow = override(real, { snapshot: () => slowly(40_000, () => real.snapshot()) })
    const heartbeat = beat(slow, { maxMs: 20 * minute, autoSnapshot: { timeoutMs: 5_000 } })
    await clock.advance(25 * minute)
    expect([count.all, failed]).toEqual([1, ['snapshot: timeout']])
    const [snapshot] = await provider.listSnapshots()
    expect(saved).toEqual([snapshot!.snapshotId])
    expect(await heartbeat.ended).toMatchObject({ reason: 'limit', snapshotId: snapshot!.snapshotId })
  })
})

describe('a sandbox whose provider never answers', () => {
  it('is saved at the latest one lease after the start', async () => {
    const { clock, provider, real, beat, failed, saved } = await setUp()
    provider.fault({ on: 'info', error: 'unavailable', times: 1000 })
    beat(real, { autoSnapshot: true })
    await clock.advance(leaseMs - minute - 1)
    expect(saved).toEqual([])
    await clock.advance(30_000)
    expect(saved).toHaveLength(1)
    expect(new Set(failed)).toEqual(new Set(['beat: unavailable']))
  })

  it('is not saved while it is paused', async () => {
    const { clock, provider, real, beat, saved } = await setUp(0)
    await real.pause()
    const heartbeat = beat(real, { autoSnapshot: true })
    await clock.advance(60 * minute)
    expect([saved, await provider.listSnapshots()]).toEqual([[], []])
    await heartbeat.stop()
  })
})

describe('a sandbox that only stops when idle', () => {
  const idleMs = 15 * minute

  /** Like a vendor's: stopped when idle, deleted at a fixed time. */
  async function idling(ttlMs?: number) {
    const made = await setUp(0)
    const { clock, real } = made
    const { lifetime: _, ...others } = real.capabilities
    const end = ttlMs === undefined ? {} : { expiresAt: new Date(clock.now() + ttlMs) }
    let usedAt = clock.now()
    const used: number[] = []
    const sandbox = override(real, {
      capabilities: { ...others, activity: 'native' },
      info: async (call) => {
        if (clock.now() - usedAt >= idleMs) await real.stop()
        return { ...(await real.info(call)), ...end }
      },
      extendTimeout: () => expect.fail('It has no lifetime.'),
      refreshActivity: async () => {
        usedAt = clock.now()
        used.push(usedAt)
      },
    })
    return { ...made, sandbox, used }
  }

  it('is used by every beat', async () => {
    const { clock, sandbox, beat, used, failed } = await idling()
    const beats: boolean[] = []
    const heartbeat = beat(sandbox, { onBeat: ({ extended }) => beats.push(extended) })
    await clock.advance(60 * minute)
    const { status } = await sandbox.info()
    expect([used.length, beats.length, status, failed]).toEqual([61, 61, 'running', []])
    expect(new Set(beats)).toEqual(new Set([true]))
    await heartbeat.stop()
    await clock.advance(16 * minute)
    expect([used.length, (await sandbox.info()).status]).toEqual([61, 'stopped'])
  })

  it('ends the heartbeat when it is stopped', async () => {
    const { clock, sandbox, real, beat, used } = await idling()
    const heartbeat = beat(sandbox)
    await clock.advance(minute)
    await real.stop()
    await clock.advance(2 * minute)
    expect([used.length, await heartbeat.ended]).toEqual([2, { reason: 'stopped' }])
  })

  it.each([
    ['a fixed end', 30 * minute, undefined],
    ['maxMs', undefined, 30 * minute],
  ])('is saved before %s, which no beat extends', async (_, ttlMs, maxMs) => {
    const { clock, sandbox, beat, failed, saved } = await idling(ttlMs)
    beat(sandbox, { autoSnapshot: true, maxMs })
    await clock.advance(28 * minute)
    expect(saved).toEqual([])
    await clock.advance(1.5 * minute)
    expect([saved.length, failed]).toEqual([1, []])
  })
})
