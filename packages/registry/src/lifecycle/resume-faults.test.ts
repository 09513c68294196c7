import { SandboxError, type SandboxInfo } from '@sandkasten/sdk'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { beforeEach, describe, expect, it } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import type { DatabaseLocation } from '../store/index.ts'
import { killHolder } from '../store/testing/beside.ts'
import type { ProgressStep } from '../types.ts'
import { gate, openTestRegistry, type TestRegistry, wrap } from './testing/registry.ts'

describeOnEachDatabase('a resume that fails', (newDatabase) => {
  let location: DatabaseLocation
  let memory: MemoryProvider
  let wrapped: ReturnType<typeof wrap<MemoryProvider>>
  let registry: TestRegistry

  beforeEach(async () => {
    location = await newDatabase()
    memory = new MemoryProvider({ seed: 'mem' })
    wrapped = wrap(memory)
    registry = await openTestRegistry(location, wrapped.provider)
  })

  const ids = async () => (await memory.list()).map(({ sandboxId }) => sandboxId)
  const destroyAtProvider = async () => {
    for (const id of await ids()) await memory.destroy(id)
  }
  /** Another process with the same provider account. */
  const otherProcess = async () => {
    const other = wrap(memory)
    return { ...other, registry: await openTestRegistry(location, other.provider) }
  }
  const stopped = async () => {
    await registry.sandboxes.create({ name: 'demo' })
    await registry.sandboxes.stop('demo')
    wrapped.counts.get = 0
  }
  const reporting = (change: Partial<SandboxInfo>) => async (real: () => Promise<unknown>) => ({
    ...((await real()) as SandboxInfo),
    ...change,
  })

  describe('an error of the provider', () => {
    it.each(['rate_limited', 'timeout', 'unavailable', 'connection_lost', 'unauthenticated'] as const)(
      '%s is thrown, and changes nothing but the remark',
      async (code) => {
        await stopped()
        const { error_message, last_checked_at, updated_at, lease_token, lease_beat, ...before } =
          await registry.row('demo')
        const retryAfterMs = { details: { retryAfterMs: 2_000 } }
        for (const call of ['get', 'start']) {
          wrapped.instead[call] = () => Promise.reject(new SandboxError(code, 'Not now.', retryAfterMs))
          await expect(registry.sandboxes.resume('demo')).rejects.toMatchObject({ code, ...retryAfterMs })
          wrapped.instead[call] = undefined
          expect(await registry.row('demo')).toMatchObject({
            ...before,
            error_message: expect.stringContaining('Not now.'),
          })
        }
        expect((await registry.sandboxes.resume('demo')).record).toMatchObject({
          status: 'running',
          errorMessage: undefined,
        })
        expect(await ids()).toHaveLength(1)
      },
    )

    it('is bounded by the caller’s time limit when the provider never answers', async () => {
      await stopped()
      for (const call of ['get', 'start']) {
        wrapped.instead[call] = () => new Promise(() => {})
        const started = performance.now()
        await expect(registry.sandboxes.resume('demo', { timeoutMs: 100 })).rejects.toMatchObject({
          code: 'timeout',
          message: 'Starting “demo” took longer than 100 ms.',
        })
        expect(performance.now() - started).toBeLessThan(3_000)
        wrapped.instead[call] = undefined
      }
      expect((await registry.row('demo')).lease_holder).toBeNull()
      expect((await registry.sandboxes.resume('demo')).incarnation).toBe(2)
    })

    it('during a restore leaves the snapshot, and no sandbox', async () => {
      await registry.sandboxes.create({ name: 'demo' })
      const { snapshotId } = await registry.sandboxes.snapshot('demo')
      await destroyAtProvider()
      memory.fault({ on: 'create', error: 'rate_limited' })
      await expect(registry.sandboxes.resume('demo')).rejects.toMatchObject({ code: 'rate_limited' })
      expect(await registry.sandboxes.get('demo')).toMatchObject({
        status: 'stopped',
        snapshotId,
        errorMessage: expect.stringContaining('rate_limited'),
      })
      wrapped.instead.create = async (real) => {
        await real()
        throw new SandboxError('connection_lost', 'The answer was lost.')
      }
      await expect(registry.sandboxes.resume('demo')).rejects.toMatchObject({ code: 'connection_lost' })
      expect(await ids()).toEqual([])
      wrapped.instead.create = undefined
      expect(await registry.sandboxes.resume('demo')).toMatchObject({
        incarnation: 2,
        record: { errorMessage: undefined },
      })
    })
  })

  describe('a status that is neither running nor stopped', () => {
    it('is waited for, and then reported with the provider’s own word', async () => {
      await registry.sandboxes.create({ name: 'demo' })
      const steps: ProgressStep[] = []
      wrapped.instead.info = reporting({ status: 'unknown', rawStatus: 'hibernating' })
      await expect(
        registry.sandboxes.resume('demo', { onProgress: (step) => steps.push(step) }),
      ).rejects.toMatchObject({
        code: 'unavailable',
        message: expect.stringContaining('“hibernating”'),
        details: { rawStatus: 'hibernating' },
      })
      expect(steps).toMatchObject([{ step: 'wait', message: expect.stringContaining('hibernating') }])
      expect([wrapped.counts.create, wrapped.counts.start]).toEqual([1, undefined])
      expect((await registry.row('demo')).status).toBe('running')
    })

    it('may end while we wait', async () => {
      await stopped()
      wrapped.instead.info = reporting({ status: 'creating' })
      setTimeout(() => {
        wrapped.instead.info = undefined
      }, 100)
      expect(await registry.sandboxes.resume('demo')).toMatchObject({ incarnation: 2 })
      expect(wrapped.counts.create).toBe(1)
    })

    it('`failed` is replaced from the snapshot', async () => {
      const { handle } = await registry.sandboxes.create({ name: 'demo' })
      await registry.sandboxes.snapshot('demo')
      wrapped.instead.info = async (real) => {
        const info = (await real()) as SandboxInfo
        return info.sandboxId === handle.sandboxId ? { ...info, status: 'failed' } : info
      }
      const restored = await registry.sandboxes.resume('demo')
      expect(restored.incarnation).toBe(2)
      expect(await ids()).toEqual([restored.handle.sandboxId])
    })

    it('`failed` without a snapshot is reported, and the sandbox is left for its owner', async () => {
      const { handle } = await registry.sandboxes.create({ name: 'demo' })
      wrapped.instead.info = reporting({ status: 'failed' })
      await expect(registry.sandboxes.resume('demo')).rejects.toMatchObject({ code: 'not_found' })
      expect(await registry.row('demo')).toMatchObject({
        status: 'failed',
        provider_sandbox_id: handle.sandboxId,
      })
      // Its owner repaired it.
      wrapped.instead.info = undefined
      expect((await registry.sandboxes.resume('demo')).handle.sandboxId).toBe(handle.sandboxId)
    })
  })

  it('takes a sandbox that the provider calls destroyed for gone', async () => {
    await registry.sandboxes.create({ name: 'demo' })
    wrapped.instead.info = reporting({ status: 'destroyed' })
    await expect(registry.sandboxes.resume('demo')).rejects.toMatchObject({ code: 'not_found' })
  })

  it.each(['destroyed', 'restarted'])(
    'notices that it was %s while the provider answered',
    async (change) => {
      await registry.sandboxes.create({ name: 'demo' })
      const { registry: other } = await otherProcess()
      const answered = gate()
      wrapped.instead.info = async (real) => {
        const info = await real()
        wrapped.instead.info = undefined
        await answered.pass()
        return info
      }
      const resuming = registry.sandboxes.resume('demo').catch((error) => error.code)
      await answered.reached
      if (change === 'destroyed') await other.sandboxes.destroy('demo')
      else {
        await other.sandboxes.stop('demo')
        await other.sandboxes.start('demo')
      }
      answered.open()
      const resumed = await resuming
      if (change === 'destroyed') expect(resumed).toBe('not_found')
      else {
        expect(resumed.incarnation).toBe(2)
        await resumed.handle.writeFile('note', 'x')
      }
    },
  )

  it.each(['resume', 'provider', 'refresh'])(
    'forgets the address of an agent that ran before a start by %s',
    async (by) => {
      await registry.sandboxes.create({ name: 'demo' })
      await registry.sandboxes.setBaseUrl('demo', 'http://localhost:4096/')
      expect((await registry.sandboxes.resume('demo')).record.baseUrl).toBe('http://localhost:4096/')
      await registry.sandboxes.stop('demo')
      await registry.sandboxes.setBaseUrl('demo', 'http://localhost:4096/')
      if (by !== 'resume') await memory.get('mem-1')
      if (by === 'refresh') await registry.sandboxes.list({ refresh: true })
      expect((await registry.sandboxes.resume('demo')).record.baseUrl).toBeUndefined()
    },
  )

  it('tells all callers its progress, also if a listener throws', async () => {
    await stopped()
    const onProgress = () => {
      throw new Error('A defect of the caller.')
    }
    const steps: ProgressStep[] = []
    const starting = gate()
    wrapped.instead.start = async (real) => {
      await starting.pass()
      return real()
    }
    const first = registry.sandboxes.resume('demo', { onProgress })
    await starting.reached
    // Also a caller who joins after the step was told.
    const second = registry.sandboxes.resume('demo', {
      onProgress: (step) => {
        steps.push(step)
        starting.open()
      },
    })
    const resumed = await Promise.all([first, second])
    expect(resumed.map(({ incarnation }) => incarnation)).toEqual([2, 2])
    expect(steps.map(({ step }) => step)).toEqual(['start'])
  })

  it('says so when the snapshot is gone, too', async () => {
    await registry.sandboxes.create({ name: 'demo' })
    const { snapshotId } = await registry.sandboxes.snapshot('demo')
    await destroyAtProvider()
    await memory.deleteSnapshot(snapshotId)
    await expect(registry.sandboxes.resume('demo')).rejects.toMatchObject({
      code: 'not_found',
      message: expect.stringContaining('and its snapshot no longer exist'),
      hint: expect.stringContaining('Destroy it'),
    })
    expect(await registry.sandboxes.get('demo')).toMatchObject({ status: 'failed', snapshotId })
  })

  it('restores a sandbox that disappears while it is started', async () => {
    await registry.sandboxes.create({ name: 'demo' })
    await registry.sandboxes.snapshot('demo')
    await registry.sandboxes.stop('demo')
    wrapped.instead.start = async (real) => {
      await destroyAtProvider()
      return real()
    }
    expect(await registry.sandboxes.resume('demo')).toMatchObject({
      incarnation: 2,
      record: { status: 'running' },
    })
  })

  describe('many callers', () => {
    it.each([1, 2])('of %i processes start a stopped sandbox once', async (processes) => {
      await stopped()
      const all = [{ registry, counts: wrapped.counts }]
      if (processes === 2) all.push(await otherProcess())
      const resumed = await Promise.all(
        all.flatMap(({ registry: { sandboxes } }) =>
          Array.from({ length: 50 }, () => sandboxes.resume('demo')),
        ),
      )
      expect(resumed).toHaveLength(50 * processes)
      expect(new Set(resumed.map(({ incarnation }) => incarnation))).toEqual(new Set([2]))
      expect(new Set(resumed.map(({ handle }) => handle.sandboxId))).toEqual(new Set(['mem-1']))
      expect(all.reduce((sum, { counts }) => sum + (counts.start ?? 0), 0)).toBe(1)
      for (const { handle } of resumed) await handle.writeFile('note', 'x')
    })

    it('restore a sandbox once', async () => {
      await registry.sandboxes.create({ name: 'demo' })
      await registry.sandboxes.snapshot('demo')
      await destroyAtProvider()
      const other = await otherProcess()
      const resumed = await Promise.all(
        [registry, other.registry].flatMap(({ sandboxes }) =>
          Array.from({ length: 20 }, () => sandboxes.resume('demo')),
        ),
      )
      expect(
        new Set(resumed.map(({ incarnation, handle }) => `${incarnation} ${handle.sandboxId}`)).size,
      ).toBe(1)
      expect(await ids()).toHaveLength(1)
    })

    it('get no second sandbox when one of them destroys it meanwhile', async () => {
      await stopped()
      const other = await otherProcess()
      const starting = gate()
      wrapped.instead.start = async (real) => {
        await starting.pass()
        return real()
      }
      const resumes = ({ sandboxes }: TestRegistry) =>
        Array.from({ length: 20 }, () => sandboxes.resume('demo'))
      const resuming = resumes(registry)
      // The other process would not wait at the gate, so it must not be the first.
      await starting.reached
      resuming.push(...resumes(other.registry))
      const destroying = other.registry.sandboxes.destroy('demo')
      starting.open()
      expect(await destroying).toMatchObject({ existed: true })
      for (const outcome of await Promise.allSettled(resuming)) {
        if (outcome.status === 'rejected') expect(outcome.reason.code).toMatch(/not_found|interrupted/)
        else
          await expect(outcome.value.handle.writeFile('a', 'b')).rejects.toMatchObject({
            code: expect.stringMatching(/not_found|interrupted/),
          })
      }
      expect([await ids(), wrapped.counts.create, other.counts.create]).toEqual([[], 1, undefined])
    })

    it('find nothing after a destroy that came first', async () => {
      await stopped()
      const other = await otherProcess()
      const destroyingNow = gate()
      wrapped.instead.destroy = async (real) => {
        await destroyingNow.pass()
        return real()
      }
      const destroying = registry.sandboxes.destroy('demo')
      await destroyingNow.reached
      const resuming = [registry, other.registry].map(({ sandboxes }) =>
        sandboxes.resume('demo').catch((error) => error.code),
      )
      const again = other.registry.sandboxes.destroy('demo').catch((error) => error.code)
      destroyingNow.open()
      expect(await destroying).toMatchObject({ existed: true })
      expect(await Promise.all([...resuming, again])).toEqual(['not_found', 'not_found', 'not_found'])
      expect(await ids()).toEqual([])
    })

    it('go on when the first of them is cancelled', async () => {
      await stopped()
      const starting = gate()
      wrapped.instead.start = async (real) => {
        await starting.pass()
        return real()
      }
      const stop = new AbortController()
      const cancelled = registry.sandboxes.resume('demo', { signal: stop.signal })
      const steps: ProgressStep[] = []
      const patient = registry.sandboxes.resume('demo', { onProgress: (step) => steps.push(step) })
      await starting.reached
      stop.abort()
      await expect(cancelled).rejects.toMatchObject({ code: 'aborted' })
      starting.open()
      expect(await patient).toMatchObject({ incarnation: 2 })
      expect(steps.map(({ step }) => step)).toContain('start')
    })

    it('cancel the start when all of them are cancelled, and the next one starts it', async () => {
      await stopped()
      memory.fault({ on: 'get', after: 2, delayMs: 60_000 })
      const stop = new AbortController()
      const all = [1, 2].map(() => registry.sandboxes.resume('demo', { signal: stop.signal }))
      await expect.poll(() => wrapped.counts.start).toBe(1)
      stop.abort()
      const next = registry.sandboxes.resume('demo')
      for (const outcome of await Promise.allSettled(all))
        expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'aborted' } })
      expect(await next).toMatchObject({ incarnation: 2 })
    })
  })

  describe('after the death of a process', () => {
    it.each(['before', 'after'])('%s the provider started it, the next caller goes on', async (when) => {
      await stopped()
      const dying = gate()
      wrapped.instead.start = async (real) => {
        const made = when === 'after' ? await real() : undefined
        await dying.pass()
        return made ?? real()
      }
      const zombie = registry.sandboxes.resume('demo').catch((error) => error.code)
      await dying.reached
      await killHolder(location, 'demo')
      const { registry: other, counts } = await otherProcess()
      expect(await other.sandboxes.resume('demo')).toMatchObject({
        incarnation: 2,
        record: { status: 'running' },
      })
      expect(counts.start ?? 0).toBe(when === 'after' ? 0 : 1)
      dying.open()
      expect(await zombie).toBe('interrupted')
      expect(await registry.row('demo')).toMatchObject({ status: 'running', incarnation: 2 })
    })

    it.each(['before', 'after'])('%s a restore, there is one sandbox', async (when) => {
      await registry.sandboxes.create({ name: 'demo' })
      await registry.sandboxes.snapshot('demo')
      await destroyAtProvider()
      const dying = gate()
      wrapped.instead.create = async (real) => {
        const made = when === 'after' ? await real() : undefined
        await dying.pass()
        return made ?? real()
      }
      const zombie = registry.sandboxes.resume('demo').catch((error) => error.code)
      await dying.reached
      await killHolder(location, 'demo')
      const { registry: other } = await otherProcess()
      const restored = await other.sandboxes.resume('demo')
      expect(restored).toMatchObject({ incarnation: 2, record: { status: 'running' } })
      expect(await ids()).toEqual([restored.handle.sandboxId])
      dying.open()
      expect(await zombie).toBe('interrupted')
      expect(await ids()).toEqual([restored.handle.sandboxId])
    })
  })
})
