import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { SandboxError } from '../errors.ts'
import { LocalProvider } from '../providers/local/index.ts'
import { ManualClock, MemoryProvider, type MemoryProviderOptions } from '../providers/memory/index.ts'
import type { Clock } from '../shared/calls/clock.ts'
import { override } from '../shared/override.ts'
import type { SandboxHandle } from '../spec/index.ts'
import { brokenLives } from '../testing/broken/incarnations.ts'
import { setUp as setUpBroken } from '../testing/broken/index.ts'
import { type BeatFailure, type KeepAlive, type KeepAliveOptions, keepAlive } from './keep-alive.ts'

const minute = 60_000
const leaseMs = 5 * minute
const hearts: KeepAlive[] = []
afterEach(async () => {
  await Promise.all(hearts.splice(0).map((heartbeat) => heartbeat.stop()))
})

function setUp(options: MemoryProviderOptions = {}) {
  const clock = new ManualClock(Date.parse('2026-01-01T00:00:00Z'))
  const provider = new MemoryProvider({ clock, seed: 'mem', ...options })
  return { clock, provider }
}

async function beating(
  options: KeepAliveOptions & { lifetimeMs?: number; wrap?: (real: SandboxHandle) => SandboxHandle } = {},
) {
  const { clock, provider } = setUp()
  const { lifetimeMs = leaseMs, wrap = (real: SandboxHandle) => real, ...rest } = options
  const real = await provider.create({ lifetimeMs })
  const counted = { info: 0, extended: [] as number[], running: 0, most: 0 }
  const count = async <T>(work: Promise<T>): Promise<T> => {
    counted.running += 1
    counted.most = Math.max(counted.most, counted.running)
    return work.finally(() => {
      counted.running -= 1
    })
  }
  const inner = wrap(real)
  const sandbox = override(inner, {
    info: (call) => {
      counted.info += 1
      return count(inner.info(call))
    },
    extendTimeout: (ms, call) => {
      counted.extended.push(ms)
      return count(inner.extendTimeout(ms, call))
    },
  })
  const failures: Array<BeatFailure & { code: unknown }> = []
  const heartbeat = keepAlive(sandbox, {
    clock,
    leaseMs,
    onError: (error, failure) => failures.push({ ...failure, code: (error as SandboxError).code }),
    ...rest,
  })
  hearts.push(heartbeat)
  const leftMs = async () => (await real.info()).expiresAt!.getTime() - clock.now()
  return { clock, provider, sandbox: real, heartbeat, counted, failures, leftMs }
}

describe('keepAlive', () => {
  it('keeps a sandbox alive far beyond its lifetime, and never extends it beyond one lease', async () => {
    const { clock, sandbox, leftMs, counted } = await beating()
    for (let passed = 0; passed < 60; passed += 1) {
      await clock.advance(minute)
      const left = await leftMs()
      expect(left).toBeGreaterThanOrEqual(leaseMs - minute)
      expect(left).toBeLessThanOrEqual(leaseMs)
    }
    expect(await sandbox.status()).toBe('running')
    expect(new Set(counted.extended)).toEqual(new Set([leaseMs]))
  })

  it('by default, uses a lease of five minutes and checks every minute', async () => {
    const { clock, provider } = setUp()
    const sandbox = await provider.create({ lifetimeMs: minute })
    const beats: number[] = []
    hearts.push(keepAlive(sandbox, { clock, onBeat: () => beats.push(clock.now()) }))
    const began = clock.now()
    await clock.advance(3 * minute)
    expect(beats.map((at) => at - began)).toEqual([0, minute, 2 * minute, 3 * minute])
    expect((await sandbox.info()).expiresAt!.getTime() - clock.now()).toBe(5 * minute)
  })

  it('does not extend while enough time is left', async () => {
    const { clock, counted, leftMs } = await beating({ lifetimeMs: 60 * minute })
    await clock.advance(54 * minute)
    expect([counted.extended, counted.info > 50]).toEqual([[], true])
    await clock.advance(20 * minute)
    expect(counted.extended.length).toBeGreaterThan(10)
    expect(await leftMs()).toBeLessThanOrEqual(leaseMs)
  })

  it('a provider that adds up extensions does not run away', async () => {
    const { provider } = setUpBroken(brokenLives.find(({ name }) => name === 'extend-adds-up')!)
    const sandbox = await provider.create({ lifetimeMs: leaseMs / 2 })
    const heartbeat = keepAlive(sandbox, { leaseMs })
    hearts.push(heartbeat)
    for (let beats = 0; beats < 30; beats += 1) await heartbeat.beat()
    const left = (await sandbox.info()).expiresAt!.getTime() - Date.now()
    // Half a lease was left, and the provider added a full one, once.
    expect(left).toBeGreaterThan(leaseMs)
    expect(left).toBeLessThanOrEqual(2 * leaseMs)
  })

  it('never overlaps itself, however slow the provider is', async () => {
    const { clock, provider, counted, heartbeat } = await beating({ beatTimeoutMs: 20 * minute })
    provider.fault({ on: 'extendTimeout', delayMs: 1.5 * minute, times: 8 })
    for (let passed = 0; passed < 30; passed += 1) {
      void heartbeat.beat()
      await clock.advance(minute)
    }
    expect(counted.most).toBe(1)
    expect(counted.extended.length).toBeGreaterThan(5)
  })

  it('survives failed beats: retries with growing delays, and reports them', async () => {
    const { clock, provider, sandbox, failures } = await beating()
    await clock.advance(minute)
    const fault = provider.fault({ on: 'info', error: 'unavailable', times: 5 })
    await clock.advance(3 * minute)
    expect(fault.hits).toBe(5)
    expect(failures.map(({ failures, code, during }) => [failures, code, during])).toEqual(
      [1, 2, 3, 4, 5].map((count) => [count, 'unavailable', 'beat']),
    )
    const waits = failures.map(({ retryInMs }) => retryInMs)
    for (const [index, wait] of waits.entries()) {
      expect(wait).toBeGreaterThanOrEqual(500 * 2 ** index)
      expect(wait).toBeLessThanOrEqual(1000 * 2 ** index)
    }
    await clock.advance(30 * minute)
    expect([await sandbox.status(), failures.length]).toEqual(['running', 5])
  })

  it('waits as long as the provider asks, but not beyond the end of the sandbox', async () => {
    const { clock, provider, sandbox, failures } = await beating()
    await clock.advance(minute)
    const wait = (retryAfterMs: number) =>
      new SandboxError('rate_limited', 'Slow.', { details: { retryAfterMs } })
    provider.fault({ on: 'info', error: wait(90_000) })
    await clock.advance(2 * minute)
    expect(failures.at(-1)?.retryInMs).toBe(90_000)
    provider.fault({ on: 'info', error: wait(60 * minute) })
    await clock.advance(2 * minute)
    expect(failures.at(-1)!.retryInMs).toBeLessThan(leaseMs / 2 + 1)
    await clock.advance(30 * minute)
    expect(await sandbox.status()).toBe('running')
  })

  it('a provider that never answers does not stop the heartbeat', async () => {
    const { clock, sandbox, failures } = await beating({
      wrap: (real) => {
        let calls = 0
        return override(real, {
          info: (call) => {
            calls += 1
            return calls === 3 ? new Promise(() => {}) : real.info(call)
          },
        })
      },
    })
    await clock.advance(20 * minute)
    expect(failures.map(({ code }) => code)).toEqual(['timeout'])
    expect(await sandbox.status()).toBe('running')
  })

  it('a listener that throws ends neither the heartbeat nor the program', async () => {
    const { clock, sandbox, failures } = await beating({
      onBeat: () => {
        throw new SandboxError('internal', 'a listener')
      },
    })
    await clock.advance(20 * minute)
    expect([await sandbox.status(), failures[0]?.code]).toEqual(['running', 'internal'])
    const other = await beating({
      onError: () => {
        throw new Error('also')
      },
    })
    other.provider.fault({ on: 'info', error: 'unavailable' })
    await other.clock.advance(20 * minute)
    expect(await other.sandbox.status()).toBe('running')
  })

  it.each([
    ['stopped', (sandbox: SandboxHandle) => sandbox.stop()],
    ['destroyed', (sandbox: SandboxHandle) => sandbox.destroy()],
  ] as const)('ends with a sandbox that is %s', async (reason, end) => {
    const { clock, sandbox, heartbeat, counted } = await beating()
    await clock.advance(minute)
    await end(sandbox)
    await clock.advance(2 * minute)
    expect(await heartbeat.ended).toMatchObject({ reason })
    const calls = counted.info
    await clock.advance(60 * minute)
    expect([counted.info, clock.pending]).toEqual([calls, 0])
  })

  it('does not serve a sandbox that another caller has restarted', async () => {
    const { clock, provider, sandbox, heartbeat } = await beating()
    await sandbox.stop()
    await provider.get(sandbox.id)
    await clock.advance(2 * minute)
    expect(await heartbeat.ended).toMatchObject({ reason: 'interrupted' })
  })

  it('extends at every beat if the provider does not report the end of a sandbox', async () => {
    const { clock, sandbox, counted } = await beating({
      wrap: (real) =>
        override(real, {
          info: async (call) => {
            const { expiresAt: _, ...info } = await real.info(call)
            return info
          },
        }),
    })
    await clock.advance(10 * minute)
    expect([await sandbox.status(), counted.info, counted.extended.length]).toEqual(['running', 11, 11])
  })

  it('on real sandboxes, in real time', async () => {
    const root = await mkdtemp(path.join(tmpdir(), 'sandkasten-keep-alive-'))
    const sandbox = await new LocalProvider({ root, acceptNoIsolation: true }).create({ lifetimeMs: 20_000 })
    try {
      const first = (await sandbox.info()).expiresAt!.getTime()
      await using heartbeat = keepAlive(sandbox, { leaseMs: 20_000, everyMs: 200 })
      await expect.poll(async () => (await sandbox.info()).expiresAt!.getTime() - first).toBeGreaterThan(1000)
      await sandbox.stop()
      expect(await heartbeat.ended).toMatchObject({ reason: 'stopped' })
    } finally {
      await sandbox.destroy()
      await rm(root, { recursive: true, force: true })
    }
  })

  it('ignores a paused sandbox, and continues after it is resumed', async () => {
    const { clock, sandbox, counted, failures } = await beating({ lifetimeMs: 30 * minute })
    await sandbox.pause()
    await clock.advance(10 * minute)
    const { length } = counted.extended
    await sandbox.resume()
    await clock.advance(60 * minute)
    expect([await sandbox.status(), length, failures]).toEqual(['running', 0, []])
    expect(counted.extended.length).toBeGreaterThan(0)
  })

  it('ends with the signal, also during a beat', async () => {
    const controller = new AbortController()
    const { clock, provider, heartbeat, counted } = await beating({ signal: controller.signal })
    await clock.advance(minute)
    provider.fault({ on: 'extendTimeout', delayMs: 60 * minute })
    await clock.advance(minute + 1)
    controller.abort()
    expect(await heartbeat.ended).toEqual({ reason: 'aborted' })
    const before = counted.info
    await clock.advance(60 * minute)
    expect(counted.info).toBe(before)

    const { clock: other, counted: none, heartbeat: never } = await beating({ signal: AbortSignal.abort() })
    await other.advance(minute)
    expect([none.info, await never.ended]).toEqual([0, { reason: 'aborted' }])
  })

  it('ends with await using, before the sandbox that is declared above it', async () => {
    const { clock, provider } = setUp()
    let ended: KeepAlive['ended'] | undefined
    {
      await using sandbox = await provider.create({ lifetimeMs: leaseMs })
      await using heartbeat = keepAlive(sandbox, { clock, leaseMs })
      ended = heartbeat.ended
      await clock.advance(20 * minute)
      expect(await sandbox.status()).toBe('running')
    }
    expect(await ended).toEqual({ reason: 'closed' })
    await clock.advance(20 * minute)
    expect(clock.pending).toBe(0)
    const [info] = await provider.list()
    expect(info?.status).toBe('stopped')
  })

  it('beat() checks now, and joins a pending check', async () => {
    const { clock, heartbeat, counted } = await beating({ lifetimeMs: 60 * minute })
    await clock.advance(1)
    const before = counted.info
    const beats = [heartbeat.beat(), heartbeat.beat()]
    await clock.advance(1)
    await Promise.all(beats)
    expect(counted.info).toBe(before + 1)
    await heartbeat.stop()
    await heartbeat.beat()
    expect(counted.info).toBe(before + 1)
  })
})

describe('keepAlive and clocks', () => {
  /** A clock whose wall time can be set, and whose machine can sleep: then only the wall time advances. */
  class WallClock implements Clock {
    readonly manual = new ManualClock(Date.parse('2026-01-01T00:00:00Z'))
    offset = 0
    now = () => this.manual.now() + this.offset
    elapsed = () => this.manual.now()
    after = (ms: number, callback: () => void) => this.manual.after(ms, callback)
  }

  async function onWall() {
    const provider = new MemoryProvider()
    const clock = new WallClock()
    const made = await provider.create()
    let ends = clock.now() + leaseMs
    let truth = 0
    const serverNow = () => clock.manual.now() + truth
    const sandbox = override(made, {
      info: async (call) => ({
        ...(await made.info(call)),
        status: serverNow() >= ends ? 'stopped' : 'running',
        expiresAt: new Date(ends),
      }),
      extendTimeout: async (ms) => {
        ends = Math.max(ends, serverNow() + ms)
      },
    })
    const heartbeat = keepAlive(sandbox, { clock, leaseMs })
    hearts.push(heartbeat)
    return {
      clock,
      heartbeat,
      alive: () => serverNow() < ends,
      sleep: (ms: number) => {
        clock.offset += ms
        truth += ms
      },
    }
  }

  it.each([-24 * 60 * minute, -60 * minute, 60 * minute])(
    'a clock change of %i ms has no effect',
    async (jump) => {
      const { clock, alive } = await onWall()
      await clock.manual.advance(2 * minute)
      clock.offset += jump
      for (let passed = 0; passed < 30; passed += 1) {
        await clock.manual.advance(minute)
        expect(alive()).toBe(true)
      }
    },
  )

  it('after a short sleep of the machine it beats immediately, before its timer', async () => {
    const { clock, alive, sleep } = await onWall()
    await clock.manual.advance(minute)
    sleep(4.5 * minute)
    // Less time is left than the suspended timer would have taken.
    await clock.manual.advance(10_000)
    await clock.manual.advance(2 * minute)
    expect(alive()).toBe(true)
  })

  it('after a long sleep it reports that the sandbox is gone', async () => {
    const { clock, heartbeat, sleep } = await onWall()
    await clock.manual.advance(minute)
    sleep(8 * 60 * minute)
    await clock.manual.advance(10_000)
    expect(await heartbeat.ended).toMatchObject({ reason: 'stopped' })
  })
})

describe('autoSnapshot', () => {
  it('saves once, shortly before the end set by maxMs, and lets the sandbox end', async () => {
    const saved: string[] = []
    const { clock, provider, sandbox, heartbeat } = await beating({
      maxMs: 30 * minute,
      autoSnapshot: { beforeMs: 30_000, name: 'last' },
      onSnapshot: (id) => saved.push(id),
    })
    await clock.advance(29 * minute)
    expect([saved, await sandbox.status()]).toEqual([[], 'running'])
    await clock.advance(45_000)
    expect(saved).toHaveLength(1)
    await clock.advance(2 * minute)
    expect(await heartbeat.ended).toEqual({ reason: 'limit', snapshotId: saved[0] })
    expect([await sandbox.status(), await provider.listSnapshots()]).toEqual([
      'stopped',
      [expect.objectContaining({ snapshotId: saved[0], name: 'last' })],
    ])
  })

  it.each([
    ['refuses to extend', 'throws'],
    ['reports success but does not extend', 'silent'],
  ])('saves when the provider %s', async (_, how) => {
    const { clock, provider, heartbeat, failures } = await beating({
      lifetimeMs: 10 * minute,
      autoSnapshot: true,
      wrap: (real) =>
        override(real, {
          extendTimeout: async () => {
            if (how === 'throws') throw new SandboxError('quota_exceeded', 'The plan ends here.')
          },
        }),
    })
    await clock.advance(8 * minute)
    expect(await provider.listSnapshots()).toEqual([])
    await clock.advance(3 * minute)
    const snapshots = await provider.listSnapshots()
    expect(snapshots).toHaveLength(1)
    expect(failures[0]?.code).toBe('quota_exceeded')
    if (how === 'silent') expect(failures).toHaveLength(1)
    expect(await heartbeat.ended).toMatchObject({ reason: 'stopped', snapshotId: snapshots[0]!.snapshotId })
  })

  it('retries if the snapshot fails', async () => {
    const { clock, provider, failures } = await beating({ maxMs: 10 * minute, autoSnapshot: true })
    provider.fault({ on: 'snapshot', error: 'unavailable', times: 2 })
    await clock.advance(11 * minute)
    expect(failures.map(({ during, failures: count }) => [during, count])).toEqual([
      ['snapshot', 1],
      ['snapshot', 2],
    ])
    expect(await provider.listSnapshots()).toHaveLength(1)
  })

  it('takes no snapshot as long as the sandbox can be extended', async () => {
    const { clock, provider } = await beating({ autoSnapshot: true })
    provider.fault({ on: 'extendTimeout', error: 'unavailable', times: 3, after: 2 })
    await clock.advance(120 * minute)
    expect(await provider.listSnapshots()).toEqual([])
  })
})

describe('keepAlive refuses', () => {
  it('rejects missing abilities before any work', async () => {
    const { provider } = setUp({ capabilities: { lifetime: false } })
    const sandbox = await provider.create()
    expect(() => keepAlive(sandbox)).toThrow(expect.objectContaining({ code: 'unsupported' }))
    const { provider: other } = setUp({ capabilities: { snapshot: false } })
    const fleeting = await other.create()
    expect(() => keepAlive(fleeting, { autoSnapshot: true })).toThrow(
      expect.objectContaining({ code: 'unsupported', details: { ability: 'snapshot' } }),
    )
  })

  it.each([
    [{ leaseMs: 0 }, 'leaseMs'],
    [{ leaseMs: 1000, everyMs: 900 }, 'everyMs'],
    [{ autoSnapshot: { beforeMs: leaseMs } }, 'beforeMs'],
    [{ lease: 1000 } as object, 'leaseMs'],
  ])('%j', async (options, named) => {
    const sandbox = await setUp().provider.create({ lifetimeMs: 1000 })
    const error = (() => {
      try {
        keepAlive(sandbox, options)
      } catch (thrown) {
        return thrown as SandboxError
      }
      return undefined
    })()
    expect(error?.code).toBe('invalid_argument')
    expect(`${error?.message} ${error?.hint}`).toContain(named)
  })
})

describe('the process', () => {
  it('is not kept alive by an endless heartbeat', async () => {
    const root = path.resolve(import.meta.dirname, '../../../..')
    const program = `
      import { keepAlive } from '@sandkasten/sdk'
      import { MemoryProvider } from '@sandkasten/sdk/memory'
      const sandbox = await new MemoryProvider().create({ lifetimeMs: 3_600_000 })
      let beats = 0
      const heartbeat = keepAlive(sandbox, { leaseMs: 3_600_000, onBeat: () => (beats += 1) })
      await heartbeat.beat()
      process.on('exit', () => console.log('ended after', beats >= 1 ? 'beating' : 'nothing'))
    `
    const child = spawn(
      process.execPath,
      ['--conditions=sandkasten-source', '--input-type=module', '-e', program],
      { cwd: path.join(root, 'packages/sdk'), stdio: ['ignore', 'pipe', 'inherit'] },
    )
    let said = ''
    child.stdout.on('data', (data) => {
      said += data
    })
    const [code] = await once(child, 'close')
    expect([code, said]).toEqual([0, 'ended after beating\n'])
  })
})
