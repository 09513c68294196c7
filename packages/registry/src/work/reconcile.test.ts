import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { SandboxError, type SandboxProvider } from '@sandkasten/sdk'
import { LocalProvider } from '@sandkasten/sdk/local'
import { ManualClock, MemoryProvider } from '@sandkasten/sdk/memory'
import { describe, expect, it, onTestFinished } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { labels } from '../context.ts'
import { gate, wrap } from '../lifecycle/testing/registry.ts'
import type { DatabaseLocation } from '../store/index.ts'
import { killHolder } from '../store/testing/beside.ts'
import { reconcile } from './reconcile.ts'
import { openProcess, type ProcessOptions } from './testing/process.ts'

describeOnEachDatabase('reconciliation', (newDatabase) => {
  const nothing = { done: [], failed: [], orphans: [], unreachable: [] }

  async function open(location: DatabaseLocation, providers: SandboxProvider[], options?: ProcessOptions) {
    const opened = await openProcess(location, providers, options)
    onTestFinished(opened.close)
    return opened
  }

  async function setUp() {
    const inner = new MemoryProvider({ seed: 'mem' })
    const wrapped = wrap(inner)
    const location = await newDatabase()
    const process = await open(location, [wrapped.provider])
    const ids = async () => (await inner.list()).map(({ sandboxId }) => sandboxId).sort()
    return { inner, location, ids, ...wrapped, process, open: () => open(location, [wrapped.provider]) }
  }

  describe('a row', () => {
    it('without its sandbox is stopped if it has a snapshot, and failed with a reason otherwise', async () => {
      const { process, inner } = await setUp()
      for (const name of ['saved', 'lost', 'fine']) await process.sandboxes.create({ name })
      await process.sandboxes.snapshot('saved')
      for (const name of ['saved', 'lost'])
        await inner.destroy((await process.row(name)).provider_sandbox_id!)
      const report = await reconcile(process.context)
      expect(report).toMatchObject({ orphans: [], failed: [], unreachable: [] })
      expect(new Map(report.done.map(({ sandbox, action }) => [sandbox, action]))).toEqual(
        new Map([
          ['saved', 'is gone at memory; it is stopped now'],
          ['lost', 'is gone at memory; it is failed now'],
        ]),
      )
      expect(await process.sandboxes.get('saved')).toMatchObject({
        status: 'stopped',
        providerSandboxId: undefined,
      })
      expect(await process.sandboxes.get('lost')).toMatchObject({
        status: 'failed',
        errorMessage: 'The sandbox no longer exists at memory, and it has no snapshot.',
      })
      expect(await process.sandboxes.get('fine')).toMatchObject({ status: 'running' })
      expect(await reconcile(process.context)).toEqual(nothing)
      await process.sandboxes.resume('saved')
    })

    it('takes its sandbox back when the provider knows it again', async () => {
      const { process, ids, instead, inner, counts } = await setUp()
      const { handle } = await process.sandboxes.create({ name: 'demo' })
      await handle.writeFile('note.txt', 'kept')
      const row = await process.row('demo')
      // Credentials of another account.
      const denied = inner.fault({ on: 'get', error: 'not_found', times: Infinity })
      instead.list = async () => []
      await reconcile(process.context)
      expect(await process.row('demo')).toMatchObject({ status: 'failed', provider_sandbox_id: null })
      await expect(process.sandboxes.resume('demo')).rejects.toMatchObject({ code: 'not_found' })
      denied.remove()
      instead.list = undefined
      await expect(process.sandboxes.resume('demo')).rejects.toMatchObject({ code: 'not_found' })
      expect(await reconcile(process.context)).toMatchObject({
        done: [{ sandbox: 'demo', action: 'is at memory again; it is running' }],
        orphans: [],
      })
      expect(await process.row('demo')).toMatchObject({
        status: 'running',
        provider_sandbox_id: row.provider_sandbox_id,
        incarnation: 2,
        error_message: null,
      })
      expect(await ids()).toEqual([row.provider_sandbox_id])
      expect(counts.destroy).toBeUndefined()
      await process.sandboxes.resume('demo')
    })

    it('takes over what happened at the provider', async () => {
      const { process, inner } = await setUp()
      await process.sandboxes.create({ name: 'demo', lifetimeMs: 60 * 60_000 })
      const sandbox = await inner.get((await process.row('demo')).provider_sandbox_id!)
      await sandbox.extendTimeout(5 * 60 * 60_000)
      expect(await reconcile(process.context)).toEqual(nothing)
      expect((await process.row('demo')).expires_at).toBe((await sandbox.info()).expiresAt!.getTime())
      await sandbox.stop()
      expect((await reconcile(process.context)).done).toEqual([
        { sandbox: 'demo', action: 'is stopped at memory' },
      ])
      expect((await process.row('demo')).status).toBe('stopped')
    })

    it('is not changed because a listing leaves its sandbox out', async () => {
      const { process, instead } = await setUp()
      await process.sandboxes.create({ name: 'demo' })
      instead.list = async () => []
      expect(await reconcile(process.context)).toEqual(nothing)
      expect((await process.row('demo')).status).toBe('running')
    })

    it('of a provider without labels is compared, too', async () => {
      const inner = new MemoryProvider()
      const unlabelled = Object.create(inner, {
        createOptions: { value: new Set([...inner.createOptions].filter((option) => option !== 'labels')) },
      }) as MemoryProvider
      const provider = new Proxy(inner, {
        get: (target, key) => {
          const value = Reflect.get(key === 'createOptions' ? unlabelled : target, key)
          return typeof value === 'function' ? value.bind(target) : value
        },
      })
      const process = await open(await newDatabase(), [provider])
      await process.sandboxes.create({ name: 'demo' })
      await inner.destroy((await process.row('demo')).provider_sandbox_id!)
      expect((await reconcile(process.context)).done).toHaveLength(1)
      expect((await process.row('demo')).status).toBe('failed')
    })

    it('of a dead process is cleaned up', async () => {
      const { process, instead, location, ids, open } = await setUp()
      const created = gate()
      instead.create = async (real) => {
        const made = await real()
        await created.pass()
        return made
      }
      const create = process.sandboxes.create({ name: 'demo' })
      await created.reached
      const other = await open()
      await killHolder(location, 'demo')
      await reconcile(other.context)
      expect(await ids()).toEqual([])
      created.open()
      await expect(create).rejects.toThrow()
    })
  })

  describe('a sandbox with our label', () => {
    it('without a row is destroyed, and so is one of a tombstone', async () => {
      const { process, inner, ids } = await setUp()
      const { registryId } = process.context
      await process.sandboxes.create({ name: 'demo' })
      await process.sandboxes.create({ name: 'gone' })
      const { id } = await process.row('gone')
      await process.sandboxes.destroy('gone')
      const late = await inner.create({
        labels: { [labels.registry]: registryId, [labels.sandbox]: id, [labels.attempt]: '1' },
      })
      const lost = await inner.create({
        labels: { [labels.registry]: registryId, [labels.sandbox]: 'nobody', [labels.attempt]: '1' },
      })
      const report = await reconcile(process.context)
      expect(report.orphans.map(({ sandboxId }) => sandboxId).sort()).toEqual(
        [late.sandboxId, lost.sandboxId].sort(),
      )
      expect(report.failed).toEqual([])
      expect(await ids()).toEqual([(await process.row('demo')).provider_sandbox_id])
      expect(await reconcile(process.context)).toEqual(nothing)
    })

    it('of an earlier attempt is destroyed, and a copy of the present one stays', async () => {
      const { process, inner, ids } = await setUp()
      await process.sandboxes.create({ name: 'demo' })
      await process.sandboxes.snapshot('demo')
      const row = await process.row('demo')
      const earlier = await inner.create({ labels: labelsOf(process.context.registryId, row.id, 1) })
      await inner.destroy(row.provider_sandbox_id!)
      await reconcile(process.context)
      // Without a sandbox, all attempts are leftovers.
      expect(await ids()).toEqual([])
      await process.sandboxes.resume('demo')
      const present = await process.row('demo')
      const stale = await inner.create({ labels: labelsOf(process.context.registryId, row.id, 1) })
      const [copy] = await (await inner.get(present.provider_sandbox_id!)).fork()
      if (copy instanceof Error) throw copy
      const { orphans } = await reconcile(process.context)
      expect(orphans.map(({ sandboxId }) => sandboxId)).toEqual([stale.sandboxId])
      expect(await ids()).toEqual([present.provider_sandbox_id!, copy!.sandboxId].sort())
      expect(earlier.sandboxId).not.toBe(stale.sandboxId)
    })

    it('is left alone while another process creates it', async () => {
      const { process, inner, ids, instead, open } = await setUp()
      const created = gate()
      instead.create = async (real) => {
        const made = await real()
        await created.pass()
        return made
      }
      const create = process.sandboxes.create({ name: 'demo' })
      await created.reached
      expect(await ids()).toHaveLength(1)
      const other = await open()
      expect(await reconcile(other.context)).toEqual(nothing)
      expect(await ids()).toHaveLength(1)
      created.open()
      const { handle } = await create
      expect(await reconcile(other.context)).toEqual(nothing)
      expect(await handle.status()).toBe('running')
      expect(await inner.list()).toHaveLength(1)
    })

    it('is left alone if it is created after the listing', async () => {
      const { process, ids, instead, open } = await setUp()
      const other = await open()
      const listed = gate()
      instead.list = async (real) => {
        const infos = await real()
        await listed.pass()
        return infos
      }
      const run = reconcile(other.context)
      await listed.reached
      await process.sandboxes.create({ name: 'demo' })
      listed.open()
      expect(await run).toEqual(nothing)
      expect(await ids()).toHaveLength(1)
    })

    it('is kept when its provider refuses to destroy it, and destroyed next time', async () => {
      const { process, inner, ids } = await setUp()
      await inner.create({ labels: labelsOf(process.context.registryId, 'nobody', 1) })
      inner.fault({ on: 'destroy', error: 'unavailable' })
      const report = await reconcile(process.context)
      expect(report).toMatchObject({ orphans: [], failed: [{ error: { code: 'unavailable' } }] })
      expect(await ids()).toHaveLength(1)
      expect((await reconcile(process.context)).orphans).toHaveLength(1)
      expect(await ids()).toEqual([])
    })
  })

  describe.each([
    ['memory', async () => new MemoryProvider()] as const,
    [
      'local',
      async () => {
        const root = await mkdtemp(path.join(tmpdir(), 'sk-reconcile-'))
        onTestFinished(() => rm(root, { recursive: true, force: true }))
        return new LocalProvider({ root, acceptNoIsolation: true })
      },
    ] as const,
  ])('other sandboxes of the account at %s', (_, make) => {
    it.each([false, true])(
      'are never touched (a listing that ignores the filter: %s)',
      async (unfiltered) => {
        const inner: SandboxProvider = await make()
        const { provider, instead, counts } = wrap(inner)
        if (unfiltered) instead.list = () => inner.list()
        const [first, second] = [
          await open(await newDatabase(), [provider]),
          await open(await newDatabase(), [provider]),
        ]
        const stranger = await inner.create()
        // Another tool may use our words for something else.
        const imitations = await Promise.all([
          inner.create({ labels: { [labels.sandbox]: 'nobody', [labels.attempt]: '1' } }),
          inner.create({ labels: { [labels.registry]: first.context.registryId } }),
          inner.create({ labels: labelsOf('another registry', 'nobody', 1) }),
        ])
        await first.sandboxes.create({ name: 'demo' })
        await second.sandboxes.create({ name: 'demo' })
        const orphan = await inner.create({ labels: labelsOf(first.context.registryId, 'nobody', 1) })
        const before = (await inner.list()).length
        for (let round = 0; round < 2; round += 1) {
          expect((await reconcile(second.context)).orphans).toEqual([])
          expect((await reconcile(first.context)).orphans).toHaveLength(round === 0 ? 1 : 0)
          await first.work.once()
          await second.work.once()
        }
        const left = new Set((await inner.list()).map(({ sandboxId }) => sandboxId))
        expect(left.size).toBe(before - 1)
        expect(left.has(orphan.sandboxId)).toBe(false)
        for (const { sandboxId } of [stranger, ...imitations]) expect(left.has(sandboxId)).toBe(true)
        for (const process of [first, second]) {
          expect((await process.row('demo')).status).toBe('running')
          await process.sandboxes.destroy('demo')
          await reconcile(process.context)
        }
        expect((await inner.list()).length).toBe(4)
        expect(counts.destroy).toBe(3)
        for (const { id } of await inner.list()) await inner.destroy(id)
      },
    )
  })

  describe('a provider that cannot be asked', () => {
    it('is reported, and nothing is changed', async () => {
      const { process, inner, ids } = await setUp()
      await process.sandboxes.create({ name: 'demo' })
      await inner.create({ labels: labelsOf(process.context.registryId, 'nobody', 1) })
      const row = await process.row('demo')
      const fault = inner.fault({ on: 'list', error: 'unavailable', times: Infinity })
      const report = await reconcile(process.context)
      expect(report).toMatchObject({
        ...nothing,
        unreachable: [{ provider: 'memory', error: { code: 'unavailable' } }],
      })
      expect(await process.row('demo')).toEqual(row)
      fault.remove()
      expect(await ids()).toHaveLength(2)
      expect((await reconcile(process.context)).orphans).toHaveLength(1)
    })

    it('that does not answer is bounded', async () => {
      const clock = new ManualClock()
      const inner = new MemoryProvider({ clock })
      const process = await open(await newDatabase(), [inner], { timeouts: { lookMs: 200 } })
      inner.fault({ on: 'list', delayMs: 60_000 })
      expect((await reconcile(process.context)).unreachable).toMatchObject([{ error: { code: 'timeout' } }])
    })

    it('about single sandboxes is reported, and ends no sandbox', async () => {
      const { process, inner, location } = await setUp()
      for (let index = 0; index < 8; index += 1) await process.sandboxes.create({ name: `demo${index}` })
      inner.fault({ on: 'get', error: 'unavailable', times: Infinity })
      const hidden = wrap(inner)
      hidden.instead.list = async () => []
      const blind = await open(location, [hidden.provider])
      const report = await reconcile(blind.context)
      expect(report).toMatchObject({ done: [], unreachable: [{ error: { code: 'unavailable' } }] })
      expect(report.failed.length).toBeGreaterThan(2)
      // The provider is not asked for the rest.
      expect(hidden.counts.get).toBeLessThan(8)
      for (const { name } of await process.sandboxes.list())
        expect((await process.row(name)).status).toBe('running')
    })

    it('because its credentials were removed is reported', async () => {
      const { process } = await setUp()
      await process.sandboxes.create({ name: 'demo' })
      const removed = new SandboxError('unauthenticated', 'removed')
      const context = {
        ...process.context,
        providers: { ...process.context.providers, all: async () => [], of: () => Promise.reject(removed) },
      }
      expect(await reconcile(context)).toEqual({
        ...nothing,
        unreachable: [{ provider: 'memory', error: removed }],
      })
      expect(await reconcile(context, { provider: 'other' })).toEqual(nothing)
      expect((await process.row('demo')).status).toBe('running')
    })
  })

  function labelsOf(registry: string, sandbox: string, attempt: number): Record<string, string> {
    return { [labels.registry]: registry, [labels.sandbox]: sandbox, [labels.attempt]: String(attempt) }
  }
})
