import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { LocalProvider } from '@sandkasten/sdk/local'
import { ManualClock, MemoryProvider, type MemoryProviderOptions } from '@sandkasten/sdk/memory'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { gate, wrap } from '../lifecycle/testing/registry.ts'
import { killHolder } from '../store/testing/beside.ts'
import type { WorkReport } from '../types.ts'
import { openProcess, type ProcessOptions } from './testing/process.ts'
import { hasWorker } from './worker-sign.ts'

describeOnEachDatabase('due work', (newDatabase) => {
  const minute = 60_000
  const hour = 60 * minute
  const start = 1_800_000_000_000

  async function setUp({
    memory = {},
    ...options
  }: ProcessOptions & { memory?: MemoryProviderOptions } = {}) {
    const clock = new ManualClock(start)
    const inner = new MemoryProvider({ clock, seed: 'mem', ...memory })
    const wrapped = wrap(inner)
    const location = await newDatabase()
    const open = async () => {
      const opened = await openProcess(location, [wrapped.provider], { now: () => clock.now(), ...options })
      onTestFinished(opened.close)
      return opened
    }
    return { clock, inner, location, open, ...wrapped, process: await open() }
  }

  describe('a sandbox without use', () => {
    it('is stopped after its time, once', async () => {
      const { clock, process, counts } = await setUp()
      await process.sandboxes.create({ name: 'demo', idleStopMs: 30 * minute })
      await clock.advance(29 * minute)
      expect(await process.work.once()).toEqual({ done: [], failed: [] })
      await clock.advance(minute)
      expect(await process.work.once()).toEqual({
        done: [{ sandbox: 'demo', action: 'stopped after 30 minutes without use' }],
        failed: [],
      })
      expect(await process.sandboxes.get('demo')).toMatchObject({ status: 'stopped' })
      await clock.advance(24 * hour)
      expect(await process.work.once()).toEqual({ done: [], failed: [] })
      expect(counts.stop).toBe(1)
    })

    it('is stopped once by two processes that look at the same time', async () => {
      const { clock, process, counts, open } = await setUp()
      const others = await Promise.all([open(), open(), open()])
      for (let index = 0; index < 10; index += 1)
        await process.sandboxes.create({ name: `demo${index}`, idleStopMs: minute })
      await clock.advance(minute)
      const reports = await Promise.all([process, ...others].map(({ work }) => work.once()))
      expect(reports.flatMap(({ failed }) => failed)).toEqual([])
      const done = reports.flatMap(({ done }) => done.map(({ sandbox }) => sandbox))
      expect(done.sort()).toEqual(Array.from({ length: 10 }, (_, index) => `demo${index}`))
      expect(counts.stop).toBe(10)
    })

    it('goes on running when it is touched', async () => {
      const { clock, process, counts } = await setUp()
      await process.sandboxes.create({ name: 'demo', idleStopMs: 30 * minute })
      await clock.advance(20 * minute)
      await process.sandboxes.touch('demo')
      await clock.advance(29 * minute)
      await process.work.once()
      expect(counts.stop).toBeUndefined()
      await clock.advance(minute)
      await process.work.once()
      expect(counts.stop).toBe(1)
    })

    it('goes on running when it is touched while the work looks at it', async () => {
      const { clock, process, counts, instead, open } = await setUp()
      const other = await open()
      await process.sandboxes.create({ name: 'demo', idleStopMs: 30 * minute })
      await clock.advance(31 * minute)
      const asked = gate()
      instead.info = async (real) => {
        await asked.pass()
        return real()
      }
      const work = process.work.once()
      await asked.reached
      await other.sandboxes.touch('demo')
      asked.open()
      expect(await work).toEqual({ done: [], failed: [] })
      expect(counts.stop).toBeUndefined()
    })

    it('goes on running when it is touched at the last moment', async () => {
      const { clock, process, counts } = await setUp()
      await process.sandboxes.create({ name: 'demo', idleStopMs: 30 * minute })
      await clock.advance(31 * minute)
      const { sandboxes } = process.context.store
      const real = sandboxes.update.bind(sandboxes)
      const update = vi.spyOn(sandboxes, 'update').mockImplementation(async (id, token, changes, options) => {
        if (options?.operation === 'stop') await process.sandboxes.touch('demo')
        return real(id, token, changes, options)
      })
      expect(await process.work.once()).toEqual({ done: [], failed: [] })
      expect(counts.stop).toBeUndefined()
      update.mockRestore()
      expect((await process.row('demo')).due_at).toBe(start + 61 * minute)
    })

    it('goes on running while a thread holds it, and is stopped some time after that', async () => {
      const { clock, process, counts, open } = await setUp()
      const other = await open()
      await other.sandboxes.create({ name: 'demo', idleStopMs: 30 * minute })
      const hold = await other.sandboxes.hold('demo', { threadId: 't1', purpose: 'agent' })
      for (let round = 0; round < 5; round += 1) {
        await clock.advance(31 * minute)
        expect(await process.work.once()).toEqual({ done: [], failed: [] })
      }
      expect(counts.stop).toBeUndefined()
      await hold.release()
      await clock.advance(29 * minute)
      await process.work.once()
      expect(counts.stop).toBeUndefined()
      await clock.advance(minute)
      expect((await process.work.once()).done).toHaveLength(1)
      expect(counts.stop).toBe(1)
    })

    it('is saved and removed where sandboxes cannot be stopped', async () => {
      const { clock, process, inner, counts } = await setUp({
        memory: { capabilities: { stop: false, pause: false } },
      })
      const { handle } = await process.sandboxes.create({ name: 'demo', idleStopMs: minute })
      await handle.writeFile('note.txt', 'kept')
      await clock.advance(minute)
      expect((await process.work.once()).done).toEqual([
        { sandbox: 'demo', action: 'saved and removed at memory after 1 minute without use' },
      ])
      expect(await inner.list()).toHaveLength(0)
      expect(await process.sandboxes.get('demo')).toMatchObject({
        status: 'stopped',
        errorMessage: undefined,
      })
      const { handle: restored } = await process.sandboxes.resume('demo')
      expect(await (await restored.readFile('note.txt')).toString()).toContain('kept')
      expect(counts.create).toBe(2)
    })
  })

  describe('a sandbox that its provider ends', () => {
    const lifetimeMs = hour

    it('is saved once, shortly before', async () => {
      const { clock, process, counts, inner } = await setUp()
      await process.sandboxes.create({ name: 'demo', lifetimeMs })
      await clock.advance(57 * minute)
      expect((await process.work.once()).done).toEqual([])
      await clock.advance(minute)
      expect((await process.work.once()).done).toEqual([{ sandbox: 'demo', action: 'saved before its end' }])
      for (let round = 0; round < 10; round += 1) {
        await clock.advance(10_000)
        expect((await process.work.once()).done).toEqual([])
      }
      expect(counts.snapshot).toBe(1)
      const [saved] = await inner.listSnapshots()
      expect(await process.row('demo')).toMatchObject({ snapshot_id: saved!.snapshotId, snapshot_auto: 1 })
      await clock.advance(25_000)
      expect((await process.work.once()).done).toEqual([{ sandbox: 'demo', action: 'is stopped at memory' }])
      await clock.advance(hour)
      expect((await process.work.once()).done).toEqual([])
      expect((await process.row('demo')).due_at).toBeNull()
    })

    it('is extended instead while it is in use', async () => {
      const { clock, process, counts, open } = await setUp()
      await process.sandboxes.create({ name: 'demo', lifetimeMs })
      const other = await open()
      const { id } = await process.row('demo')
      // A use of a process whose own heartbeat fails.
      await other.uses.begin({ sandboxId: id, purpose: 'agent' }, 1)
      await clock.advance(58 * minute)
      expect((await process.work.once()).done).toEqual([
        { sandbox: 'demo', action: 'extended, because it is in use' },
      ])
      expect(counts.snapshot).toBeUndefined()
      expect((await process.row('demo')).expires_at).toBe(start + 63 * minute)
    })

    it.each([
      ['is saved under its users if its end cannot be moved', 'quota_exceeded', 1] as const,
      ['is not interrupted as long as it may still be extended', 'unavailable', 0] as const,
    ])('%s', async (_, error, snapshots) => {
      const { clock, process, counts, inner, provider, instead } = await setUp()
      Object.defineProperty(inner, 'snapshotInterrupts', { value: true })
      expect((provider as { snapshotInterrupts?: boolean }).snapshotInterrupts).toBe(true)
      await process.sandboxes.create({ name: 'demo', lifetimeMs })
      await process.uses.begin({ sandboxId: (await process.row('demo')).id, purpose: 'agent' }, 1)
      inner.fault({ on: 'extendTimeout', error, times: Infinity })
      await clock.advance(58 * minute)
      await process.work.once()
      expect(counts.snapshot ?? 0).toBe(snapshots)
      await clock.advance(45_000)
      await process.work.once()
      expect(counts.snapshot ?? 0).toBe(snapshots)
      await clock.advance(30_000)
      await process.work.once()
      expect(counts.snapshot).toBe(1)
      expect(instead).toEqual({})
    })

    it('is looked at after its end where there are no snapshots', async () => {
      const { clock, process, counts } = await setUp({ memory: { capabilities: { snapshot: false } } })
      await process.sandboxes.create({ name: 'demo', lifetimeMs })
      await clock.advance(58 * minute)
      await process.work.once()
      const asked = counts.get
      await clock.advance(minute)
      await process.work.once()
      expect(counts.get).toBe(asked)
      await clock.advance(minute + 2_000)
      expect((await process.work.once()).done).toEqual([{ sandbox: 'demo', action: 'is stopped at memory' }])
    })
  })

  describe('work that a process left', () => {
    it('includes a sandbox that a failed create could not remove', async () => {
      const { clock, process, inner } = await setUp()
      inner.command('git', async () => 1)
      inner.fault({ on: 'destroy', error: 'unavailable', times: 1 })
      await expect(
        process.sandboxes.create({ name: 'demo', repo: 'https://example.com/x.git' }),
      ).rejects.toThrow()
      expect(await inner.list()).toHaveLength(1)
      await clock.advance(minute)
      expect((await process.work.once()).done).toHaveLength(1)
      expect(await inner.list()).toHaveLength(0)
      expect(await process.row('demo')).toMatchObject({ status: 'failed', provider_sandbox_id: null })
    })

    it('includes an operation in the middle', async () => {
      const { process, instead, inner, location, open } = await setUp()
      const created = gate()
      instead.create = async (real) => {
        const made = await real()
        await created.pass()
        return made
      }
      const create = process.sandboxes.create({ name: 'demo' })
      await created.reached
      const other = await open()
      expect(await other.work.once()).toEqual({ done: [], failed: [] })
      expect(await inner.list()).toHaveLength(1)
      await killHolder(location, 'demo')
      expect((await other.work.once()).done).toEqual([
        { sandbox: 'demo', action: 'cleaned up after a process that ended during “create”' },
      ])
      expect(await inner.list()).toHaveLength(0)
      created.open()
      await expect(create).rejects.toThrow()
      expect(await other.row('demo')).toMatchObject({ status: 'failed' })
    })
  })

  describe('a destroyed sandbox', () => {
    it('is forgotten after 30 days, by any process that does due work', async () => {
      const { clock, process } = await setUp()
      await process.sandboxes.create({ name: 'demo' })
      await process.sandboxes.destroy('demo')
      const names = async () => (await process.sandboxes.list({ destroyed: true })).map(({ name }) => name)
      await clock.advance(29 * 24 * hour)
      await process.work.once()
      expect(await names()).toEqual(['demo'])
      await clock.advance(2 * 24 * hour)
      await process.work.once()
      expect(await names()).toEqual([])
    })
  })

  describe('a failure', () => {
    it('is recorded, tried again later and stops no other work', async () => {
      const { clock, process, inner, counts } = await setUp()
      await process.sandboxes.create({ name: 'bad', idleStopMs: minute })
      await process.sandboxes.create({ name: 'good', idleStopMs: minute })
      const id = (await process.row('bad')).provider_sandbox_id!
      const fault = inner.fault({ on: 'stop', sandboxId: id, error: 'unavailable', times: Infinity })
      await clock.advance(minute)
      const report = await process.work.once()
      expect(report.done).toMatchObject([{ sandbox: 'good' }])
      expect(report.failed).toMatchObject([{ sandbox: 'bad', error: { code: 'unavailable' } }])
      expect((await process.row('bad')).error_message).toContain('told to fail stop')
      expect(await process.work.once()).toEqual({ done: [], failed: [] })
      // 30 seconds, then a minute: up to a quarter less.
      await clock.advance(30_000)
      expect((await process.work.once()).failed).toHaveLength(1)
      await clock.advance(44_000)
      expect((await process.work.once()).failed).toHaveLength(0)
      await clock.advance(16_000)
      fault.remove()
      expect((await process.work.once()).done).toMatchObject([{ sandbox: 'bad' }])
      expect(counts.stop).toBe(4)
      expect((await process.row('bad')).error_message).toBeNull()
    })

    it('that cannot be recorded is not repeated at once', async () => {
      const { clock, process, inner, counts } = await setUp()
      await process.sandboxes.create({ name: 'demo', idleStopMs: minute })
      inner.fault({ on: 'get', error: 'provider_error', times: Infinity })
      await clock.advance(minute)
      const { sandboxes } = process.context.store
      const real = sandboxes.update.bind(sandboxes)
      vi.spyOn(sandboxes, 'update').mockImplementation(async (id, token, changes, options) => {
        if (changes.error_message !== undefined) throw new SandboxError('disk_full', 'The disk is full.')
        return real(id, token, changes, options)
      })
      const before = counts.get!
      expect((await process.work.once()).failed).toMatchObject([{ error: { code: 'disk_full' } }])
      expect(counts.get).toBe(before + 1)
      expect(await process.work.once()).toEqual({ done: [], failed: [] })
      expect(counts.get).toBe(before + 1)
    })

    it('is not repeated before the time that the provider asked for', async () => {
      const { clock, process, inner, counts } = await setUp()
      for (const name of ['a', 'b', 'c', 'd', 'e', 'f', 'g'])
        await process.sandboxes.create({ name, idleStopMs: minute })
      const error = new SandboxError('rate_limited', 'Slow down.', { details: { retryAfterMs: 10 * minute } })
      inner.fault({ on: 'get', error, times: Infinity })
      await clock.advance(minute)
      const before = counts.get!
      expect((await process.work.once()).failed.length).toBeLessThanOrEqual(4)
      // The rest of the lane waits, too.
      expect(counts.get! - before).toBeLessThanOrEqual(4)
      const after = counts.get!
      await clock.advance(9 * minute)
      await process.work.once()
      expect(counts.get).toBe(after)
    })

    it('of a provider that hangs is bounded, and delays no other provider', async () => {
      const root = await mkdtemp(path.join(tmpdir(), 'sk-work-'))
      onTestFinished(() => rm(root, { recursive: true, force: true }))
      const local = new LocalProvider({ root, acceptNoIsolation: true })
      const clock = new ManualClock(start)
      const memory = new MemoryProvider({ clock })
      const process = await openProcess(await newDatabase(), [memory, local], {
        now: () => clock.now(),
        timeouts: { lookMs: 1_500 },
        mostWaitMs: 50,
      })
      onTestFinished(process.close)
      for (const name of ['m1', 'm2'])
        await process.sandboxes.create({ name, provider: 'memory', idleStopMs: minute })
      await process.sandboxes.create({ name: 'l1', provider: 'local', idleStopMs: minute })
      await process.sandboxes.create({ name: 'l2', provider: 'local', idleStopMs: 2 * minute })
      memory.fault({ on: 'get', delayMs: 24 * hour, times: Infinity })
      await clock.advance(minute)

      const stop = new AbortController()
      const reports: WorkReport[] = []
      const loop = process.work.loop({ signal: stop.signal, onReport: (report) => reports.push(report) })
      await expect.poll(async () => (await process.row('l1')).status).toBe('stopped')
      // The lane of the first provider still waits for its answer.
      await clock.advance(minute)
      await expect.poll(async () => (await process.row('l2')).status).toBe('stopped')
      expect(reports.flatMap(({ failed }) => failed)).toEqual([])
      await expect.poll(() => reports.flatMap(({ failed }) => failed).length).toBe(2)
      expect(reports.flatMap(({ failed }) => failed)).toMatchObject([
        { error: { code: 'timeout' } },
        { error: { code: 'timeout' } },
      ])
      stop.abort()
      await loop
      expect(await process.row('m1')).toMatchObject({ status: 'running' })
    })
  })

  describe('the loop', () => {
    it('wakes for the next due time, and ends with the signal', async () => {
      const location = await newDatabase()
      const memory = new MemoryProvider()
      const process = await openProcess(location, [memory], { mostWaitMs: 60_000 })
      onTestFinished(process.close)
      await process.sandboxes.create({ name: 'demo', idleStopMs: 400 })
      const stop = new AbortController()
      const done: string[] = []
      const loop = process.work.loop({
        signal: stop.signal,
        onReport: (report) => {
          done.push(...report.done.map(({ action }) => action))
          throw new Error('A listener that throws.')
        },
      })
      await expect
        .poll(() => done, { timeout: 5_000 })
        .toEqual(['stopped after 400 milliseconds without use'])
      stop.abort()
      await loop
      await process.work.loop({ signal: stop.signal })
    })

    it('notices work that another process adds', async () => {
      const location = await newDatabase()
      const memory = new MemoryProvider()
      const process = await openProcess(location, [memory], { mostWaitMs: 100 })
      onTestFinished(process.close)
      const stop = new AbortController()
      const loop = process.work.loop({ signal: stop.signal })
      const other = await openProcess(location, [memory])
      onTestFinished(other.close)
      await other.sandboxes.create({ name: 'demo', idleStopMs: 1 })
      await expect.poll(async () => (await other.row('demo')).status).toBe('stopped')
      stop.abort()
      await loop
    })

    it('leaves a provider at once when the signal fires', async () => {
      const { clock, process, inner } = await setUp({ timeouts: { lookMs: 60_000 } })
      await process.sandboxes.create({ name: 'demo', idleStopMs: minute })
      inner.fault({ on: 'get', delayMs: 24 * hour })
      await clock.advance(minute)
      const stop = new AbortController()
      const loop = process.work.loop({ signal: stop.signal })
      await expect.poll(async () => (await process.row('demo')).operation).toBe('check')
      stop.abort()
      await loop
      const { operation, due_at } = await process.row('demo')
      expect(operation).toBeNull()
      // The next process does not wait for the same provider at once.
      expect(due_at).toBeGreaterThan(clock.now())
    })

    it('tells other processes that it runs', async () => {
      const { process, open } = await setUp({ mostWaitMs: 50 })
      const other = await open()
      expect(await hasWorker(other.context)).toBe(false)
      const stop = new AbortController()
      const loop = process.work.loop({ signal: stop.signal })
      await expect.poll(() => hasWorker(other.context)).toBe(true)
      const later = { ...other.context, now: () => other.context.now() + 3 * minute }
      expect(await hasWorker(later)).toBe(false)
      stop.abort()
      await loop
      expect(await hasWorker(other.context)).toBe(false)
    })
  })
})
