import { SandboxError } from '@sandkasten/sdk'
import { ManualClock, MemoryProvider, type MemoryProviderOptions } from '@sandkasten/sdk/memory'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { gate, wrap } from '../lifecycle/testing/registry.ts'
import type { OperationOptions } from '../types.ts'
import { hold } from './hold.ts'
import { openProcess } from './testing/process.ts'

describeOnEachDatabase('holds', (newDatabase) => {
  const minute = 60_000
  const quick = { lookMs: 20, askMs: 30, noteMs: 60_000 }

  async function setUp({ capabilities, ...options }: MemoryProviderOptions & { noteMs?: number } = {}) {
    const inner = new MemoryProvider({ seed: 'mem', capabilities })
    const wrapped = wrap(inner)
    const location = await newDatabase()
    const open = async () => {
      const opened = await openProcess(location, [wrapped.provider], { ...quick, ...options })
      onTestFinished(opened.close)
      return opened
    }
    return { inner, open, ...wrapped, process: await open() }
  }

  const over = (signal: AbortSignal) => expect.poll(() => signal.aborted).toBe(true)

  describe('a hold', () => {
    it('resumes the sandbox, names its use, and is released once', async () => {
      const { process, open } = await setUp()
      await process.sandboxes.create({ name: 'demo' })
      await process.sandboxes.stop('demo')
      const hold = await process.sandboxes.hold('demo', { threadId: 't1', purpose: 'agent' })
      expect(hold).toMatchObject({ incarnation: 2, record: { name: 'demo', status: 'running' } })
      expect(await hold.handle.status()).toBe('running')
      const other = await open()
      expect((await other.sandboxes.get('demo')).uses).toMatchObject([{ threadId: 't1', purpose: 'agent' }])
      await expect(other.sandboxes.stop('demo')).rejects.toMatchObject({ code: 'conflict' })
      // The thread's own use is no reason to refuse.
      await hold.release()
      await hold.release()
      expect(hold.signal.aborted).toBe(false)
      expect((await other.sandboxes.get('demo')).uses).toEqual([])
      await other.sandboxes.stop('demo')
    })

    it('ends with its scope', async () => {
      const { process } = await setUp()
      await process.sandboxes.create({ name: 'demo' })
      {
        await using hold = await process.sandboxes.hold('demo')
        expect((await process.sandboxes.get('demo')).uses).toMatchObject([{ purpose: 'use' }])
        expect(hold.signal.aborted).toBe(false)
      }
      expect((await process.sandboxes.get('demo')).uses).toEqual([])
    })

    it('leaves nothing when the sandbox cannot be resumed', async () => {
      const { process, inner } = await setUp()
      await process.sandboxes.create({ name: 'demo' })
      await inner.destroy((await process.row('demo')).provider_sandbox_id!)
      await expect(process.sandboxes.hold('demo')).rejects.toMatchObject({ code: 'not_found' })
      await expect(process.sandboxes.hold('demo', { purpose: 'x'.repeat(201) })).rejects.toMatchObject({
        code: 'invalid_argument',
      })
      expect(await process.context.store.holds.all()).toEqual([])
    })

    it('that comes while the sandbox is stopped gets the next incarnation', async () => {
      const { process, instead, open } = await setUp()
      await process.sandboxes.create({ name: 'demo' })
      const other = await open()
      const stopping = gate()
      instead.stop = async (real) => {
        await stopping.pass()
        return real()
      }
      const stop = process.sandboxes.stop('demo')
      await stopping.reached
      const held = other.sandboxes.hold('demo')
      stopping.open()
      await stop
      const hold = await held
      expect(hold.incarnation).toBe(2)
      expect(await hold.handle.status()).toBe('running')
      await hold.release()
    })
  })

  it('a hold resumes the sandbox again if another process stops it before the use is registered', async () => {
    const { process, open } = await setUp()
    await process.sandboxes.create({ name: 'demo' })
    const other = await open()
    let resumes = 0
    const resume = async (options: OperationOptions) => {
      const resumed = await process.sandboxes.resume('demo', options)
      resumes += 1
      if (resumes === 1) {
        await other.sandboxes.stop('demo')
        await other.sandboxes.resume('demo')
      }
      return resumed
    }
    await using held = await hold(process, resume, { purpose: 'agent' })
    expect([resumes, held.incarnation]).toEqual([2, 2])
    expect(await held.handle.status()).toBe('running')
    expect((await other.sandboxes.get('demo')).uses).toHaveLength(1)
  })

  describe('the signal of a hold', () => {
    it.each([
      ['stopped by another process', (sandboxes) => sandboxes.stop('demo', { force: true }), 'not_running'],
      [
        'destroyed by another process',
        (sandboxes) => sandboxes.destroy('demo', { force: true }),
        'not_found',
      ],
      [
        'restarted by another process',
        async (sandboxes) => {
          await sandboxes.stop('demo', { force: true })
          await sandboxes.start('demo')
        },
        undefined,
      ],
    ] as Array<
      [string, (sandboxes: Awaited<ReturnType<typeof openProcess>>['sandboxes']) => Promise<unknown>, string?]
    >)('aborts when the sandbox is %s', async (_, end, code) => {
      const { process, open } = await setUp()
      await process.sandboxes.create({ name: 'demo' })
      const holds = await Promise.all([
        process.sandboxes.hold('demo'),
        process.sandboxes.hold('demo', { threadId: 't' }),
      ])
      const other = await open()
      await end(other.sandboxes)
      for (const { signal } of holds) {
        await over(signal)
        expect(signal.reason).toBeInstanceOf(SandboxError)
        if (code) expect(signal.reason).toMatchObject({ code })
        else expect(['interrupted', 'not_running']).toContain(signal.reason.code)
      }
      // What is gone is not in use.
      await expect.poll(() => process.context.store.holds.all()).toEqual([])
      await Promise.all(holds.map((hold) => hold.release()))
    })

    it.each([
      ['with a lifetime', {}],
      ['without one', { lifetime: false }],
    ] as const)('aborts when a sandbox %s ends at the provider', async (_, capabilities) => {
      const { process, inner } = await setUp({ capabilities })
      const lifetime = 'lifetime' in capabilities ? {} : { lifetimeMs: 900 }
      await process.sandboxes.create({ name: 'demo', ...lifetime })
      const fault = inner.fault({ on: 'extendTimeout', error: 'quota_exceeded', times: Infinity })
      const hold = await process.sandboxes.hold('demo')
      if ('lifetime' in capabilities) await inner.destroy((await process.row('demo')).provider_sandbox_id!)
      // The heartbeat asks once a second after a failure.
      await expect.poll(() => hold.signal.aborted, { timeout: 10_000 }).toBe(true)
      expect(hold.signal.reason.code).toBe('lifetime' in capabilities ? 'not_found' : 'not_running')
      fault.remove()
      await hold.release()
    })

    it('does not abort because the provider or the database is away', async () => {
      const { process, inner } = await setUp({ capabilities: { lifetime: false } })
      await process.sandboxes.create({ name: 'demo' })
      const hold = await process.sandboxes.hold('demo')
      const asked = inner.fault({ on: 'info', error: 'unavailable', times: Infinity })
      const read = vi.spyOn(process.context.store.sandboxes, 'byIds').mockRejectedValue(new Error('away'))
      await expect.poll(() => asked.hits).toBeGreaterThan(3)
      await expect.poll(() => read.mock.calls.length).toBeGreaterThan(3)
      expect(hold.signal.aborted).toBe(false)
      read.mockRestore()
      await hold.release()
    })
  })

  describe('a held sandbox', () => {
    it('is kept alive beyond its lifetime, and only while it is held', async () => {
      const inner = new MemoryProvider()
      const process = await openProcess(await newDatabase(), [inner], quick)
      onTestFinished(process.close)
      await process.sandboxes.create({ name: 'demo', lifetimeMs: minute })
      const sandbox = await inner.get((await process.row('demo')).provider_sandbox_id!)
      const end = async () => (await sandbox.info()).expiresAt!.getTime()
      const before = await end()
      const holds = await Promise.all([
        process.sandboxes.hold('demo'),
        process.sandboxes.hold('demo', { threadId: 't' }),
      ])
      await expect.poll(end).toBeGreaterThan(before + 3 * minute)
      // One heartbeat for both: it extends once.
      expect((await end()) - before).toBeLessThan(5 * minute)
      await Promise.all(holds.map((hold) => hold.release()))
    })

    it('tells the row when it was used, and when it ends', async () => {
      // The heartbeat has its own clock.
      const start = Date.now()
      const clock = new ManualClock(start)
      const inner = new MemoryProvider({ clock })
      const process = await openProcess(await newDatabase(), [inner], {
        ...quick,
        noteMs: minute,
        now: () => clock.now(),
      })
      onTestFinished(process.close)
      await process.sandboxes.create({ name: 'demo', lifetimeMs: 4 * minute, idleStopMs: 10 * minute })
      const hold = await process.sandboxes.hold('demo')
      await expect.poll(async () => (await hold.handle.info()).expiresAt?.getTime()).toBe(start + 5 * minute)
      await clock.advance(minute)
      await expect
        .poll(() => process.row('demo'))
        .toMatchObject({
          last_used_at: start + minute,
          expires_at: start + 5 * minute,
          due_at: start + 4 * minute,
        })
      await clock.advance(1000)
      await hold.release()
      expect(await process.row('demo')).toMatchObject({ last_used_at: start + minute + 1000 })
    })
  })
})
