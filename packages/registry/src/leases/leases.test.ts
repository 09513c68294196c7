import { SandboxError } from '@sandkasten/sdk'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import {
  type DatabaseLocation,
  type Operation,
  openStore,
  type SandboxRow,
  type Store,
} from '../store/index.ts'
import { sandboxRow } from '../store/testing/rows.ts'
import { BeatWatch, type Lease, Leases, silentMs, thisHolder } from './index.ts'

/** A process on another machine. */
const elsewhere = JSON.stringify({ machine: 'elsewhere', pid: 1 })
/** A process of this machine that has ended: its start time is not the one of process 1. */
const ended = async () => JSON.stringify({ ...JSON.parse(await thisHolder()), pid: 1, started: '-' })

describeOnEachDatabase('leases', (place) => {
  let location: DatabaseLocation
  let store: Store
  let leases: Leases
  let now = 0
  let recovered: Operation[]
  let recover: (lease: Lease) => Promise<unknown>
  beforeEach(async () => {
    location = await place()
    store = await openStore(location)
    now = 0
    recovered = []
    recover = async () => {}
    leases = new Leases(store.sandboxes, new BeatWatch(() => now), async (lease, operation) => {
      recovered.push(operation)
      await recover(lease)
    })
  })
  afterEach(async () => {
    vi.useRealTimers()
    vi.restoreAllMocks()
    await leases.close()
    await store.close()
  })

  const insert = async (given: Partial<SandboxRow> = {}) => {
    const row = sandboxRow(given)
    await store.sandboxes.insert(row)
    return row.id
  }
  const read = async (id: string) => (await store.sandboxes.byId(id))!
  const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

  describe('an operation', () => {
    it('holds the lease while it works, and changes the row under it', async () => {
      const id = await insert()
      const result = await leases.operate(id, 'stop', async (lease) => {
        expect(await read(id)).toMatchObject({ lease_holder: await thisHolder(), operation: 'stop' })
        expect(await lease.update({ status: 'stopped' })).toMatchObject({ status: 'stopped' })
        expect(lease.row.status).toBe('stopped')
        await lease.update({}, { operation: 'snapshot' })
        expect((await read(id)).operation).toBe('snapshot')
        return 'done'
      })
      expect(result).toBe('done')
      expect(await read(id)).toMatchObject({ status: 'stopped', lease_holder: null, operation: null })
      expect(recovered).toEqual([])
    })

    it('that fails releases the lease', async () => {
      const id = await insert()
      const failing = leases.operate(id, 'stop', async () => {
        throw new Error('no')
      })
      await expect(failing).rejects.toThrow('no')
      expect(await read(id)).toMatchObject({ lease_holder: null, operation: null })
    })

    it('can start with a row that it has inserted', async () => {
      const row = sandboxRow({
        lease_token: 1,
        lease_holder: await thisHolder(),
        operation: 'create',
        status: 'creating',
      })
      await store.sandboxes.insert(row)
      await leases.adopt(row, undefined, async (lease) => void (await lease.update({ status: 'running' })))
      expect(await read(row.id)).toMatchObject({ status: 'running', lease_holder: null, operation: null })
    })

    it('can end with a tombstone, and then nothing works under its lease', async () => {
      const id = await insert()
      await store.threads.attach({ app_id: '', guild_id: '' }, 't', id, 1)
      await leases.operate(id, 'destroy', async (lease) => {
        expect(await lease.tombstone()).toEqual(['t'])
        expect(lease.row.live).toBe(0)
        const update = vi.spyOn(store.sandboxes, 'update')
        await expect(lease.update({ status: 'running' })).rejects.toMatchObject({ code: 'interrupted' })
        expect(update).not.toHaveBeenCalled()
        expect(lease.signal.aborted).toBe(false)
      })
      expect(await read(id)).toMatchObject({ live: 0, status: 'destroyed', lease_holder: null })
      await expect(leases.operate(id, 'start', async () => {})).rejects.toMatchObject({
        code: 'not_found',
        message: '“demo” was destroyed.',
      })
      await expect(leases.operate('missing', 'start', async () => {})).rejects.toMatchObject({
        code: 'not_found',
      })
    })

    it('waits for others, in this process and in another, and never runs beside one', async () => {
      const id = await insert()
      const other = await openStore(location)
      const others = new Leases(other.sandboxes, new BeatWatch(), async () => {})
      let working = 0
      let most = 0
      let done = 0
      const work = async () => {
        working += 1
        most = Math.max(most, working)
        await wait(1)
        working -= 1
        done += 1
      }
      await Promise.all(
        Array.from({ length: 20 }, (_, at) => (at % 2 ? leases : others).operate(id, 'start', work)),
      )
      expect({ most, done }).toEqual({ most: 1, done: 20 })
      expect((await read(id)).lease_token).toBe(20)
      await others.close()
      await other.close()
    })
  })

  describe('waiting', () => {
    /** Holds the lease until the returned function is called. */
    async function occupied(id: string, by: Leases = leases): Promise<() => Promise<unknown>> {
      const { promise, resolve } = Promise.withResolvers<void>()
      const { promise: started, resolve: start } = Promise.withResolvers<void>()
      const work = by.operate(id, 'snapshot', async () => {
        start()
        await promise
      })
      await started
      return () => {
        resolve()
        return work
      }
    }

    it('ends by its time, its signal or its condition, without the lease', async () => {
      const other = await openStore(location)
      const others = new Leases(other.sandboxes, new BeatWatch(), async () => {})
      for (const by of [leases, others]) {
        const id = await insert({ name: `n${by === others}` })
        const release = await occupied(id, by)
        const onWait = vi.fn()
        const work = vi.fn()
        await expect(leases.operate(id, 'stop', work, { waitMs: 30, onWait })).rejects.toMatchObject({
          code: 'conflict',
          details: { operation: 'snapshot' },
        })
        expect(onWait.mock.calls).toEqual([[expect.objectContaining({ operation: 'snapshot' })]])
        const controller = new AbortController()
        const waiting = leases.operate(id, 'stop', work, { signal: controller.signal })
        setTimeout(() => controller.abort(), 30)
        await expect(waiting).rejects.toMatchObject({ code: 'aborted' })
        const unless = ({ status }: SandboxRow) => status === 'running'
        expect(await leases.operate(id, 'stop', work, { unless })).toBeUndefined()
        expect(work).not.toHaveBeenCalled()
        await release()
        await leases.operate(id, 'stop', work)
        expect(work).toHaveBeenCalledTimes(1)
      }
      await others.close()
      await other.close()
    })

    it('checks its condition again when its turn has come', async () => {
      const id = await insert({ status: 'stopped' })
      let runs = 0
      const resume = () =>
        leases.operate(
          id,
          'start',
          async (lease) => {
            runs += 1
            await wait(20)
            await lease.update({ status: 'running' })
          },
          { unless: ({ status }) => status === 'running' },
        )
      await Promise.all(Array.from({ length: 50 }, resume))
      expect(runs).toBe(1)
    })

    it('polls the database only for the first caller, a few times a second', async () => {
      const id = await insert()
      const other = await openStore(location)
      const others = new Leases(other.sandboxes, new BeatWatch(), async () => {})
      const release = await occupied(id, others)
      const takes = vi.spyOn(store.sandboxes, 'take')
      const waiting = Array.from({ length: 50 }, () => leases.operate(id, 'stop', async () => {}))
      await wait(1_500)
      expect(takes.mock.calls.length).toBeLessThan(20)
      await release()
      await Promise.all(waiting)
      await others.close()
      await other.close()
    })

    it('leaves nothing behind in a signal that lives long', async () => {
      const id = await insert()
      const { signal } = new AbortController()
      const added = vi.spyOn(signal, 'addEventListener')
      const removed = vi.spyOn(signal, 'removeEventListener')
      const release = await occupied(id)
      const waiting = Promise.all(
        Array.from({ length: 10 }, () => leases.operate(id, 'stop', async () => {}, { signal })),
      )
      await wait(10)
      await release()
      await waiting
      expect(added.mock.calls.length).toBeGreaterThanOrEqual(10)
      expect(removed.mock.calls.length).toBeGreaterThanOrEqual(added.mock.calls.length)
    })
  })

  describe('a takeover', () => {
    it('recovers the operation of a process that has ended, at once, before the next one', async () => {
      const id = await insert()
      await store.sandboxes.take(id, await ended(), 'restore')
      recover = async (lease) => {
        expect(lease.row.operation).toBe('restore')
        await lease.update({ status: 'failed' })
      }
      await leases.operate(id, 'stop', async (lease) => {
        expect(recovered).toEqual(['restore'])
        expect(lease.row).toMatchObject({ status: 'failed', operation: 'stop', lease_token: 2 })
      })
    })

    it('of a holder elsewhere waits until it is silent', async () => {
      const id = await insert()
      const { lease_token } = (await store.sandboxes.take(id, elsewhere, 'start'))!
      const waiting = leases.operate(id, 'stop', async () => 'mine')
      await wait(300)
      now += silentMs
      await store.sandboxes.renew(id, lease_token)
      await wait(600)
      now += silentMs
      await wait(600)
      expect((await read(id)).lease_holder).toBe(elsewhere)
      now += 1_000
      expect(await waiting).toBe('mine')
      expect(recovered).toEqual(['start'])
    })

    it('of a living process of this machine waits for the same silence: it may be stopped', async () => {
      const id = await insert()
      await store.sandboxes.take(id, await thisHolder(), 'start')
      await expect(leases.operate(id, 'stop', async () => {}, { waitMs: 300 })).rejects.toMatchObject({
        code: 'conflict',
      })
      now += silentMs + 1
      expect(await leases.operate(id, 'stop', async () => 'mine', { waitMs: 300 })).toBe('mine')
    })

    it('does not follow from a wall clock that jumps', async () => {
      const id = await insert()
      await store.sandboxes.take(id, elsewhere, 'start')
      vi.useFakeTimers({ toFake: ['Date'] })
      const steady = new Leases(store.sandboxes, new BeatWatch(), async () => {})
      for (const jump of [1, -2]) {
        const waiting = steady.operate(id, 'stop', async () => {}, { waitMs: 400 })
        setTimeout(() => vi.setSystemTime(Date.now() + jump * 365 * 86_400_000), 100)
        await expect(waiting).rejects.toMatchObject({ code: 'conflict' })
      }
      await steady.close()
    })

    it('leaves the operation to the next holder if its recovery fails', async () => {
      const id = await insert()
      await store.sandboxes.take(id, await ended(), 'create')
      recover = async () => {
        throw new SandboxError('unavailable', 'The provider is away.')
      }
      const work = vi.fn()
      await expect(leases.operate(id, 'destroy', work)).rejects.toMatchObject({ code: 'unavailable' })
      expect(work).not.toHaveBeenCalled()
      expect(await read(id)).toMatchObject({ lease_holder: null, operation: 'create' })
      recover = async () => {}
      await leases.operate(id, 'destroy', work)
      expect(recovered).toEqual(['create', 'create'])
      expect(work).toHaveBeenCalledTimes(1)
      expect(await read(id)).toMatchObject({ lease_holder: null, operation: null })
    })

    it('by a process that dies while it recovers keeps the first operation', async () => {
      const id = await insert()
      await store.sandboxes.take(id, await ended(), 'create')
      await store.sandboxes.takeOver(id, await ended(), await read(id))
      await leases.operate(id, 'destroy', async () => {})
      expect(recovered).toEqual(['create'])
    })

    it('that ends the sandbox ends the operation with not_found', async () => {
      const id = await insert()
      await store.sandboxes.take(id, await ended(), 'destroy')
      recover = (lease) => lease.tombstone()
      const work = vi.fn()
      await expect(leases.operate(id, 'start', work)).rejects.toMatchObject({ code: 'not_found' })
      expect(work).not.toHaveBeenCalled()
    })

    it('aborts the work of the earlier holder, whose writes change nothing', async () => {
      vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
      const id = await insert()
      await leases.operate(id, 'start', async (lease) => {
        await store.sandboxes.takeOver(id, elsewhere, lease.row)
        expect(lease.signal.aborted).toBe(false)
        await vi.advanceTimersByTimeAsync(silentMs / 3)
        await expect.poll(() => lease.signal.aborted).toBe(true)
        expect(lease.signal.reason).toMatchObject({ code: 'interrupted' })
        await expect(lease.update({ status: 'failed' })).rejects.toMatchObject({ code: 'interrupted' })
      })
      expect(await read(id)).toMatchObject({ status: 'running', lease_holder: elsewhere })
    })

    it('does not happen to a holder that renews its lease', async () => {
      vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
      const id = await insert()
      await leases.operate(id, 'start', async () => {
        const { lease_beat } = await read(id)
        await vi.advanceTimersByTimeAsync(silentMs / 3)
        await expect.poll(async () => (await read(id)).lease_beat).toBe(lease_beat + 1)
      })
    })
  })

  describe('while the database is away', () => {
    const away = async () => {
      throw new SandboxError('unavailable', 'The database is away.')
    }

    it('a release is tried again until it succeeds', async () => {
      const id = await insert()
      const update = vi.spyOn(store.sandboxes, 'update')
      await leases.operate(id, 'start', async () => void update.mockImplementation(away))
      expect((await read(id)).lease_holder).toBe(await thisHolder())
      update.mockRestore()
      await expect.poll(async () => (await read(id)).lease_holder).toBeNull()
      expect((await read(id)).operation).toBeNull()
    })

    it('a release is tried again by the next operation, and by close', async () => {
      const id = await insert()
      const update = vi.spyOn(store.sandboxes, 'update')
      await leases.operate(id, 'start', async () => void update.mockImplementation(away))
      update.mockRestore()
      expect(await leases.operate(id, 'stop', async () => 'at once', { waitMs: 100 })).toBe('at once')
      expect(recovered).toEqual([])
      const again = vi.spyOn(store.sandboxes, 'update')
      await leases.operate(id, 'start', async () => void again.mockImplementation(away))
      again.mockRestore()
      await leases.close()
      expect((await read(id)).lease_holder).toBeNull()
    })

    it('an operation that could not write is recovered by the next one', async () => {
      const id = await insert()
      const update = vi.spyOn(store.sandboxes, 'update')
      const failing = leases.operate(id, 'start', async (lease) => {
        update.mockImplementationOnce(away)
        await lease.update({ status: 'running' })
      })
      await expect(failing).rejects.toMatchObject({ code: 'unavailable' })
      expect(await read(id)).toMatchObject({ lease_holder: null, operation: 'start' })
      await leases.operate(id, 'stop', async () => {})
      expect(recovered).toEqual(['start'])
    })

    it('an operation that wrote later, or wrote what may not be stored, is finished', async () => {
      const id = await insert()
      const update = vi.spyOn(store.sandboxes, 'update')
      await leases.operate(id, 'start', async (lease) => {
        update.mockImplementationOnce(away)
        await lease.update({ status: 'running' }).catch(() => lease.update({ status: 'running' }))
        await lease.update({ label: '\n' }).catch(() => {})
      })
      expect(await read(id)).toMatchObject({ lease_holder: null, operation: null })
    })

    it('a holder that cannot renew its lease stops its work, and leaves the operation to be recovered', async () => {
      vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
      const id = await insert()
      vi.spyOn(store.sandboxes, 'renew').mockImplementation(away)
      await leases.operate(id, 'start', async (lease) => {
        await vi.advanceTimersByTimeAsync(silentMs)
        expect(lease.signal.aborted).toBe(false)
        await vi.advanceTimersByTimeAsync(silentMs / 3)
        expect(lease.signal.reason).toMatchObject({ code: 'interrupted' })
      })
      expect(await read(id)).toMatchObject({ lease_holder: null, operation: 'start' })
    })
  })

  it('the caller’s signal reaches the work', async () => {
    const id = await insert()
    const controller = new AbortController()
    const work = leases.operate(
      id,
      'start',
      async (lease) => {
        controller.abort(new Error('enough'))
        lease.signal.throwIfAborted()
      },
      { signal: controller.signal },
    )
    await expect(work).rejects.toThrow('enough')
    expect(await read(id)).toMatchObject({ lease_holder: null, operation: null })
  })
})
