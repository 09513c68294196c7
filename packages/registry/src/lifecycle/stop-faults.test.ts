import { SandboxError } from '@sandkasten/sdk'
import { MemoryProvider, type MemoryProviderOptions } from '@sandkasten/sdk/memory'
import { beforeEach, describe, expect, it } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import type { DatabaseLocation } from '../store/index.ts'
import { killHolder } from '../store/testing/beside.ts'
import { snapshot } from './snapshot.ts'
import { gate, openTestRegistry, type TestRegistry, wrap } from './testing/registry.ts'

describeOnEachDatabase('a stop or snapshot that fails', (newDatabase) => {
  let location: DatabaseLocation
  let memory: MemoryProvider
  let wrapped: ReturnType<typeof wrap<MemoryProvider>>
  let registry: TestRegistry

  const setUp = async (options: MemoryProviderOptions = {}) => {
    location = await newDatabase()
    memory = new MemoryProvider({ seed: 'mem', ...options })
    wrapped = wrap(memory)
    registry = await openTestRegistry(location, wrapped.provider)
  }
  beforeEach(() => setUp())

  const ids = async () => (await memory.list()).map(({ sandboxId }) => sandboxId)
  const snapshots = async () => (await memory.listSnapshots()).map(({ snapshotId }) => snapshotId)
  const away = () =>
    Promise.reject(new SandboxError('unavailable', 'The provider is away.', { provider: 'memory' }))
  const create = (name = 'demo') => registry.sandboxes.create({ name })
  const use = async (threadId?: string) => {
    const { id, incarnation } = await registry.sandboxes.get('demo')
    return (await registry.uses.begin({ sandboxId: id, threadId, purpose: 'exec npm test' }, incarnation))!
  }
  const autoSnapshot = async () =>
    registry.context.leases.operate((await registry.row('demo')).id, 'snapshot', (lease) =>
      snapshot({ context: registry.context, lease }, { auto: true }),
    )

  describe('a sandbox that others use', () => {
    it.each(['stop', 'destroy'] as const)('is not ended by %s unless it is forced', async (call) => {
      const { handle } = await create()
      const done = await use('thread-1')
      await expect(registry.sandboxes[call]('demo')).rejects.toMatchObject({
        code: 'conflict',
        message: expect.stringContaining('in use by thread thread-1 (exec npm test)'),
        details: { uses: [{ threadId: 'thread-1', purpose: 'exec npm test', pid: process.pid }] },
      })
      await expect(registry.sandboxes[call]('demo', { threadId: 'thread-2' })).rejects.toMatchObject({
        code: 'conflict',
      })
      expect(await handle.status()).toBe('running')
      expect((await registry.row('demo')).error_message).toBeNull()
      expect((await registry.sandboxes.get('demo')).uses).toMatchObject([{ threadId: 'thread-1' }])
      await registry.sandboxes[call]('demo', { force: true })
      expect((await memory.list())[0]?.status).toBe(call === 'stop' ? 'stopped' : undefined)
      await done()
    })

    it('is stopped by its own thread', async () => {
      await create()
      const done = await use('thread-1')
      expect(await registry.sandboxes.stop('demo', { threadId: 'thread-1' })).toMatchObject({
        status: 'stopped',
      })
      await done()
    })

    it('is saved, but not by a provider that interrupts it', async () => {
      const { handle } = await create()
      const done = await use()
      await registry.sandboxes.snapshot('demo')
      Object.defineProperty(wrapped.provider, 'snapshotInterrupts', { value: true })
      await expect(registry.sandboxes.snapshot('demo')).rejects.toMatchObject({
        code: 'conflict',
        message: expect.stringMatching(/process \d+ \(exec npm test\).*saving it ends their programs/),
      })
      expect(await snapshots()).toHaveLength(1)
      expect(await registry.sandboxes.get('demo')).toMatchObject({ incarnation: 1 })
      // The provider stops it, saves it, and starts it again.
      wrapped.instead.snapshot = async (real) => {
        const made = await real()
        await handle.stop()
        await handle.start()
        return made
      }
      await registry.sandboxes.snapshot('demo', { force: true })
      expect(await registry.sandboxes.get('demo')).toMatchObject({
        incarnation: 2,
        status: 'running',
        baseUrl: undefined,
      })
      await done()
    })
  })

  describe('abilities', () => {
    it('decide how a sandbox is stopped', async () => {
      await setUp({ capabilities: { stop: false } })
      const { handle } = await create()
      expect(await registry.sandboxes.stop('demo')).toMatchObject({ status: 'paused' })
      expect(await handle.status()).toBe('paused')
      expect(await registry.sandboxes.resume('demo')).toMatchObject({ incarnation: 2 })
    })

    it('that are missing are named with what to do instead', async () => {
      await setUp({ capabilities: { stop: false, pause: false } })
      await create()
      await expect(registry.sandboxes.stop('demo')).rejects.toMatchObject({
        code: 'unsupported',
        hint: expect.stringContaining('save it with snapshot(), and destroy it'),
      })
      await setUp({ capabilities: { stop: false, pause: false, snapshot: false } })
      await expect(registry.sandboxes.create({ name: 'idle', idleStopMs: 1000 })).rejects.toMatchObject({
        code: 'unsupported',
        details: { option: 'idleStopMs' },
      })
      await setUp({ capabilities: { snapshot: false } })
      await create()
      await expect(registry.sandboxes.snapshot('demo')).rejects.toMatchObject({
        code: 'unsupported',
        hint: expect.stringContaining('stop it'),
      })
      await memory.destroy('mem-1')
      await expect(registry.sandboxes.resume('demo')).rejects.toMatchObject({ code: 'not_found' })
    })
  })

  describe('an error of the provider', () => {
    it.each(['stop', 'snapshot', 'destroy'] as const)(
      'during %s changes nothing but the remark',
      async (call) => {
        await create()
        const { error_message, last_checked_at, updated_at, lease_token, lease_beat, ...before } =
          await registry.row('demo')
        wrapped.instead[call] = away
        await expect(registry.sandboxes[call]('demo')).rejects.toMatchObject({ code: 'unavailable' })
        expect(await registry.row('demo')).toMatchObject({
          ...before,
          error_message: expect.stringContaining('away'),
        })
        wrapped.instead[call] = () => new Promise(() => {})
        await expect(registry.sandboxes[call]('demo', { timeoutMs: 50 })).rejects.toMatchObject({
          code: 'timeout',
        })
        expect(await registry.row('demo')).toMatchObject({
          ...before,
          error_message: expect.stringContaining('50 ms'),
        })
        wrapped.instead[call] = undefined
        await registry.sandboxes[call]('demo')
        expect((await registry.row('demo')).error_message).toBeNull()
      },
    )

    it('after the snapshot was made keeps the snapshot', async () => {
      const { handle } = await create()
      wrapped.instead.snapshot = async (real) => {
        const details = (await real()) as { snapshotId: string }
        await handle.stop()
        throw new SandboxError('timeout', 'The snapshot exists, but restarting the sandbox failed.', {
          details,
        })
      }
      await expect(registry.sandboxes.snapshot('demo')).rejects.toMatchObject({ code: 'timeout' })
      expect([(await registry.row('demo')).snapshot_id]).toEqual(await snapshots())
    })

    it('during the deletion of automatic snapshots is told after the destroy', async () => {
      await create()
      const { snapshotId } = (await autoSnapshot())!
      wrapped.instead.deleteSnapshot = away
      expect(await registry.sandboxes.destroy('demo')).toEqual({ existed: true, threads: [], snapshotId })
      expect(await registry.row('demo')).toMatchObject({
        live: 0,
        snapshot_id: snapshotId,
        error_message: expect.stringContaining('could not be deleted'),
      })
    })
  })

  it('deletes an automatic snapshot later if the provider refused it once', async () => {
    await create()
    await autoSnapshot()
    wrapped.instead.deleteSnapshot = away
    const second = (await autoSnapshot())!
    expect(await snapshots()).toHaveLength(2)
    wrapped.instead.deleteSnapshot = undefined
    const third = (await autoSnapshot())!
    expect(await snapshots()).toEqual([third.snapshotId])
    expect(third.snapshotId).not.toBe(second.snapshotId)
  })

  it('does not blame the provider for a snapshot of a sandbox that does not run', async () => {
    await create()
    wrapped.instead.snapshot = () => Promise.reject(new SandboxError('not_running', 'It is stopped.'))
    await expect(registry.sandboxes.snapshot('demo')).rejects.toMatchObject({ code: 'not_running' })
    expect((await registry.row('demo')).error_message).toBeNull()
  })

  it('tells a destroy which snapshot of a caller’s is left', async () => {
    await create()
    const { snapshotId } = await registry.sandboxes.snapshot('demo')
    expect(await registry.sandboxes.destroy('demo')).toMatchObject({ snapshotId })
    expect(await snapshots()).toEqual([snapshotId])
  })

  it('does not save a sandbox that is gone', async () => {
    await create()
    const { snapshotId } = await registry.sandboxes.snapshot('demo')
    await memory.destroy('mem-1')
    await expect(registry.sandboxes.snapshot('demo')).rejects.toMatchObject({ code: 'not_running' })
    expect(await registry.sandboxes.get('demo')).toMatchObject({ status: 'stopped', snapshotId })
    expect(await registry.sandboxes.stop('demo')).toMatchObject({ status: 'stopped', snapshotId })
  })

  describe('after the death of a process', () => {
    const dieIn = async (call: 'stop' | 'snapshot' | 'destroy', when: string) => {
      const dying = gate()
      wrapped.instead[call] = async (real) => {
        const result = when === 'after' ? await real() : undefined
        await dying.pass()
        return result ?? real()
      }
      const zombie = registry.sandboxes[call]('demo').catch((error) => error.code)
      await dying.reached
      await killHolder(location, 'demo')
      return async () => {
        dying.open()
        return zombie
      }
    }
    const otherProcess = () => openTestRegistry(location, memory)

    it.each(['before', 'after'])(
      'in a destroy %s the provider destroyed it, it is destroyed',
      async (when) => {
        await create()
        const end = await dieIn('destroy', when)
        const other = await otherProcess()
        await expect(other.sandboxes.resume('demo')).rejects.toMatchObject({ code: 'not_found' })
        expect([await ids(), (await registry.row('demo')).live]).toEqual([[], 0])
        await other.sandboxes.create({ name: 'demo' })
        expect(await end()).toBe('interrupted')
        expect(await ids()).toHaveLength(1)
      },
    )

    it.each(['before', 'after'])(
      'in a stop %s the provider stopped it, the row says what is true',
      async (when) => {
        await create()
        const end = await dieIn('stop', when)
        const other = await otherProcess()
        const { incarnation } = await other.sandboxes.resume('demo')
        expect(incarnation).toBe(when === 'after' ? 2 : 1)
        await end()
      },
    )

    it('in a stop, due work learns what is true', async () => {
      await create()
      const end = await dieIn('stop', 'after')
      const other = await otherProcess()
      await other.context.leases.operate((await registry.row('demo')).id, 'check', async () => {})
      expect(await registry.row('demo')).toMatchObject({
        status: 'stopped',
        operation: null,
        lease_holder: null,
      })
      await end()
    })

    it('in a snapshot, the next process records it', async () => {
      await create()
      await registry.sandboxes.snapshot('demo', { snapshotName: 'mine' })
      const end = await dieIn('snapshot', 'after')
      const other = await otherProcess()
      await other.sandboxes.resume('demo')
      const { snapshotId } = await other.sandboxes.get('demo')
      expect(snapshotId).toBe((await snapshots())[1])
      expect(await end()).toBe('interrupted')
    })

    it('in a snapshot that was not made, the earlier one stays', async () => {
      await create()
      await registry.sandboxes.snapshot('demo')
      const { snapshotId } = await registry.sandboxes.snapshot('demo', { snapshotName: 'mine' })
      const end = await dieIn('snapshot', 'before')
      const other = await otherProcess()
      await other.sandboxes.resume('demo')
      expect(await other.sandboxes.get('demo')).toMatchObject({ snapshotId })
      await end()
    })

    it('automatic snapshots without a record are deleted with the next one', async () => {
      await create()
      const dying = gate()
      wrapped.instead.snapshot = async (real) => {
        const made = await real()
        await dying.pass()
        return made
      }
      const zombie = autoSnapshot().catch((error) => error.code)
      await dying.reached
      await killHolder(location, 'demo')
      registry = await otherProcess()
      const { snapshotId } = (await autoSnapshot())!
      expect(await snapshots()).toEqual([snapshotId])
      dying.open()
      expect(await zombie).toBe('interrupted')
    })
  })

  describe('the snapshots at a provider', () => {
    it('are listed with their sandboxes, and those of sandboxes that are gone, too', async () => {
      await create()
      const { snapshotId } = await registry.sandboxes.snapshot('demo')
      expect(await registry.sandboxes.listSnapshots()).toMatchObject([
        { snapshotId, sandbox: 'demo', isLast: true },
      ])
      await registry.sandboxes.destroy('demo')
      expect(await registry.sandboxes.listSnapshots()).toMatchObject([
        { snapshotId, sandbox: undefined, isLast: false },
      ])
      expect(await registry.sandboxes.deleteSnapshot(snapshotId)).toBe(true)
      expect(await registry.sandboxes.deleteSnapshot(snapshotId)).toBe(false)
    })

    it('are not deleted while a sandbox would be restored from them, unless that is forced', async () => {
      await create()
      const first = await registry.sandboxes.snapshot('demo')
      const { snapshotId } = await registry.sandboxes.snapshot('demo')
      await expect(registry.sandboxes.deleteSnapshot(snapshotId)).rejects.toMatchObject({
        code: 'conflict',
        details: { name: 'demo' },
      })
      expect(await registry.sandboxes.deleteSnapshot(first.snapshotId)).toBe(true)
      expect(await registry.sandboxes.deleteSnapshot(snapshotId, { force: true })).toBe(true)
    })
  })
})
