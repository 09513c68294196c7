import { afterEach, describe, expect, it } from 'vitest'
import { SandboxError } from '../errors.ts'
import { type ManualClock, MemoryProvider } from '../providers/memory/index.ts'
import { override } from '../shared/override.ts'
import { brokenProviders, setUp as setUpBroken } from '../testing/broken/index.ts'
import { failover } from './failover.ts'
import { closeGroups, groups, named, setUp } from './test-kit.ts'

afterEach(closeGroups)

describe('failover: leftovers of a failed create', () => {
  /** Creates the sandbox, but loses the response. */
  function losing(real: MemoryProvider, afterMs = 0, clock?: ManualClock): MemoryProvider {
    return override(real, {
      create: async (options) => {
        if (afterMs === 0) await real.create(options)
        else clock!.after(afterMs, () => void real.create(options))
        throw new SandboxError('connection_lost', 'The answer was lost.')
      },
    })
  }

  it('are destroyed immediately', async () => {
    const { a, b, clock } = setUp()
    const stranger = await a.create({ labels: { 'sandkasten.attempt': 'somebody else’s' } })
    const group = failover(losing(a), named(b, 'second'), { clock })
    groups.push(group)
    const sandbox = await group.create({ labels: { mine: 'yes' } })
    expect((await a.list()).map(({ id }) => id)).toEqual([stranger.id])
    expect(group.explain(sandbox)?.attempts[0]?.leftovers).toBe('memory:a-2 was left and has been destroyed')
    expect((await b.list({ labels: { mine: 'yes' } })).length).toBe(1)
  })

  it('are destroyed also if they appear later', async () => {
    const { a, b, clock } = setUp()
    const group = failover(losing(a, 20_000, clock), named(b, 'second'), { clock })
    groups.push(group)
    await group.create()
    await clock.advance(25_000)
    expect(await a.list()).toHaveLength(1)
    await clock.advance(60_000)
    expect(await a.list()).toHaveLength(0)
    await clock.advance(600_000)
    expect(clock.pending).toBe(0)
  })

  it('are destroyed also if the provider cannot be asked at first', async () => {
    const { a, b, clock } = setUp()
    const group = failover(losing(a), named(b, 'second'), { clock })
    groups.push(group)
    a.fault({ on: 'list', error: 'unavailable' })
    const sandbox = await group.create()
    expect(group.explain(sandbox)?.attempts[0]?.leftovers).toBe('could not be searched for leftovers')
    expect(await a.list()).toHaveLength(1)
    expect(await group.sweep()).toEqual([])
    expect(await a.list()).toHaveLength(0)
  })

  it('are reported if the provider can never be asked, and swept when it can', async () => {
    const { a, b, clock } = setUp()
    const told: unknown[] = []
    const group = failover(losing(a), named(b, 'second'), {
      clock,
      onLeftover: (leftover) => told.push(leftover),
    })
    groups.push(group)
    const down = a.fault({ on: 'list', error: 'unavailable', times: Infinity })
    await group.create()
    const looks: number[] = []
    for (const ms of [4_999, 1, 29_999, 1, 119_999, 1, 3_600_000]) {
      await clock.advance(ms)
      looks.push(down.hits)
    }
    expect(looks).toEqual([1, 2, 2, 3, 3, 4, 4])
    const left = { provider: 'memory', attempt: expect.any(String), error: expect.any(SandboxError) }
    expect([told, await group.sweep()]).toEqual([[left], [left]])
    down.remove()
    expect(await group.sweep()).toEqual([])
    expect(await a.list()).toEqual([])
  })

  it('do not include sandboxes of others if the provider does not filter its list', async () => {
    const broken = brokenProviders.find(({ name }) => name === 'list-ignores-labels')!
    const { working, provider } = setUpBroken(broken)
    await working.create({ labels: { owner: 'somebody' } })
    const lost = override(provider, {
      create: async (options) => {
        await provider.create(options)
        throw new SandboxError('connection_lost', 'The answer was lost.')
      },
    })
    const group = failover(lost, new MemoryProvider())
    groups.push(group)
    await group.create()
    expect((await working.list()).map(({ labels }) => labels)).toEqual([{ owner: 'somebody' }])
  })

  it('are destroyed also if the provider itself could not do it', async () => {
    const { a, b, group } = setUp()
    // The clone fails, and so does the removal of its sandbox.
    const failed = a.fault({ on: 'destroy', error: 'unavailable' })
    const error = await group.create({ repo: 'https://example.com/x.git' }).catch((thrown) => thrown)
    expect(error).toBeInstanceOf(AggregateError)
    expect([failed.hits, await a.list(), await b.list()]).toEqual([1, [], []])
    expect(String(group.explain(error))).toContain('memory:a-1 was left and has been destroyed')
  })

  it('do not include a sandbox that existed before', async () => {
    const { a, b, clock } = setUp()
    const there = await a.create({ name: 'job' })
    await there.stop()
    const deaf = override(a, { getOrCreate: ({ signal: _, ...options }) => a.getOrCreate(options) })
    const group = failover(deaf, named(b, 'second'), { clock, attemptTimeoutMs: 5000 })
    groups.push(group)
    a.fault({ on: 'get', delayMs: 60_000 })
    const finding = expect(group.getOrCreate({ name: 'job' })).rejects.toMatchObject({ code: 'timeout' })
    await clock.advance(600_000)
    await finding
    expect([await a.list(), await b.list()]).toMatchObject([[{ sandboxId: 'a-1', status: 'running' }], []])

    // A sandbox that was created too late is a leftover.
    a.fault({ on: 'create', delayMs: 60_000 })
    const making = group.getOrCreate({ name: 'other' })
    await clock.advance(600_000)
    expect((await making).provider).toBe('second')
    expect((await a.list()).map(({ name }) => name)).toEqual(['job'])
  })

  it('a cancelled call returns immediately, and the search runs in the background', async () => {
    const { a, b, clock } = setUp()
    const controller = new AbortController()
    const lost = override(a, {
      create: async ({ signal: _, ...options } = {}) => {
        await a.create(options)
        controller.abort()
        throw new SandboxError('aborted', 'Cancelled.')
      },
    })
    const group = failover(lost, named(b, 'second'), { clock })
    groups.push(group)
    a.fault({ on: 'list', delayMs: 5000 })
    await expect(group.create({ signal: controller.signal })).rejects.toMatchObject({ code: 'aborted' })
    expect([(await a.list()).length, await b.list()]).toEqual([1, []])
    await clock.advance(5000)
    expect(await a.list()).toEqual([])
  })

  it('a refusal leaves nothing, so no search is made', async () => {
    const { a, group } = setUp()
    a.fault({ on: 'create', error: 'rate_limited' })
    const asked = a.fault({ on: 'list', delayMs: 1, times: Infinity })
    const sandbox = await group.create()
    expect([asked.hits, group.explain(sandbox)?.attempts[0]?.leftovers]).toEqual([0, undefined])
  })
})
