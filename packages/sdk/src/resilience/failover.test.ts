import { afterEach, describe, expect, it } from 'vitest'
import { errorTable, SandboxError, type SandboxErrorCode } from '../errors.ts'
import { LocalProvider } from '../providers/local/index.ts'
import { MemoryProvider } from '../providers/memory/index.ts'
import { override } from '../shared/override.ts'
import { conformance, memoryCommands, memoryEgress } from '../testing/index.ts'
import { type FailoverOptions, failover } from './failover.ts'
import { closeGroups, groups, named, setUp } from './test-kit.ts'
import { withRetry } from './with-retry.ts'

afterEach(closeGroups)

const codes = Object.keys(errorTable) as SandboxErrorCode[]
const triesNext = ['rate_limited', 'connection_lost', 'unavailable', 'timeout', 'provider_error']

describe('failover: create', () => {
  it('uses the first provider while it works', async () => {
    const { a, b, group, accounts } = setUp()
    const sandbox = await group.create()
    expect([sandbox.id, (await a.list()).length, (await b.list()).length]).toEqual(['memory:a-1', 1, 0])
    expect(group.explain(sandbox)).toBe(accounts[0])
    expect(accounts[0]).toMatchObject({ chosen: 'memory', attempts: [{ outcome: 'chosen', place: 0 }] })
  })

  it.each(codes)('%s: tries the next provider or stops', async (code) => {
    const { a, b, group, accounts } = setUp()
    a.fault({ on: 'create', error: code })
    if (triesNext.includes(code)) {
      const sandbox = await group.create()
      expect([sandbox.provider, accounts[0]!.attempts.map(({ code: why }) => why)]).toEqual([
        'second',
        [code, undefined],
      ])
    } else {
      await expect(group.create()).rejects.toMatchObject({ code })
      expect((await b.list()).length).toBe(0)
      expect(String(accounts[0])).toContain(`could not fix ${code}`)
    }
    expect(accounts).toHaveLength(1)
  })

  it('never tries another provider after wrong credentials', async () => {
    for (const code of ['unauthenticated', 'forbidden'] as const) {
      const { a, b, group } = setUp({ also: ['quota_exceeded', 'disk_full'] })
      a.fault({ on: 'create', error: code, times: Infinity })
      a.fault({ on: 'get', error: code, times: Infinity })
      a.fault({ on: 'list', error: code, times: Infinity })
      const other = await b.create({ name: 'here' })
      await expect(group.create()).rejects.toMatchObject({ code })
      await expect(group.getOrCreate({ name: 'here' })).rejects.toMatchObject({ code })
      await expect(group.get(other.sandboxId)).rejects.toMatchObject({ code })
      expect(await b.list()).toHaveLength(1)
      expect(() => failover(a, { also: [code] as never })).toThrow(/also/)
    }
  })

  it('tries another provider after a full quota only if asked to', async () => {
    const { a, group } = setUp({ also: ['quota_exceeded'] })
    a.fault({ on: 'create', error: 'quota_exceeded' })
    expect((await group.create()).provider).toBe('second')
  })

  it('explains the choice as text', async () => {
    const { a, group, clock } = setUp()
    a.fault({ on: 'create', delayMs: 1234, error: 'unavailable' })
    const making = group.create()
    await clock.advance(2000)
    expect(String(group.explain(await making))).toBe(
      [
        '1. memory: failed after 1234 ms with unavailable: The memory provider was told to fail create with unavailable. (nothing was left)',
        '2. second: chosen, after 0 ms.',
      ].join('\n'),
    )
  })

  it('if all fail, the error has every reason and the shortest wait', async () => {
    const { a, b, group } = setUp()
    const limited = (retryAfterMs: number) =>
      new SandboxError('rate_limited', `wait ${retryAfterMs}`, { details: { retryAfterMs } })
    a.fault({ on: 'create', error: limited(9000) })
    b.fault({ on: 'create', error: limited(4000) })
    const error: SandboxError = await group.create().then(
      () => expect.fail('It was created.'),
      (thrown) => thrown,
    )
    expect(error).toMatchObject({ code: 'rate_limited', retryable: true, details: { retryAfterMs: 4000 } })
    expect(error.message).toContain('1. memory: failed after 0 ms with rate_limited: wait 9000')
    expect(error.message).toContain('2. second: failed after 0 ms with rate_limited: wait 4000')
    expect((error.cause as AggregateError).errors).toHaveLength(2)
    expect(group.explain(error)?.attempts).toHaveLength(2)

    a.fault({ on: 'create', error: 'unavailable' })
    b.fault({ on: 'create', error: 'provider_error' })
    await expect(group.create()).rejects.toMatchObject({ code: 'unavailable' })
  })

  it('a foreign error and a cancelled call stop everything', async () => {
    const { a, b, group } = setUp()
    a.fault({ on: 'create', error: new TypeError('a defect') })
    await expect(group.create()).rejects.toThrow('a defect')
    await expect(group.create({ signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'aborted' })
    expect([...(await a.list()), ...(await b.list())]).toEqual([])
  })

  it('a provider that takes too long has failed, and its late sandbox is destroyed', async () => {
    const { a, b, clock } = setUp()
    // It ignores the signal, so it finishes.
    const deaf = override(a, { create: ({ signal: _, ...options } = {}) => a.create(options) })
    a.fault({ on: 'create', delayMs: 60_000 })
    const group = failover(deaf, named(b, 'second'), { clock, attemptTimeoutMs: 5000 })
    groups.push(group)
    const making = group.create()
    await clock.advance(5000)
    const sandbox = await making
    expect([sandbox.provider, group.explain(sandbox)?.attempts[0]?.code]).toEqual(['second', 'timeout'])
    await clock.advance(60_000)
    expect(await a.list()).toEqual([])
  })

  it('a listener that throws does not cost the sandbox', async () => {
    const { group } = setUp({
      onChoice: () => {
        throw new Error('a listener')
      },
    })
    expect(await (await group.create()).status()).toBe('running')
  })
})

describe('failover: names', () => {
  it('finds a sandbox by its name at any provider', async () => {
    const { a, group } = setUp()
    a.fault({ on: 'create', error: 'unavailable' })
    const first = await group.getOrCreate({ name: 'job' })
    const again = await group.getOrCreate({ name: 'job' })
    expect([first.id, again.id]).toEqual(['second:b-1', 'second:b-1'])
    expect(await a.list()).toEqual([])
  })

  it('concurrent callers get the same sandbox, even if the first provider recovers meanwhile', async () => {
    const { a, b, group } = setUp()
    a.fault({ on: 'create', error: 'unavailable' })
    const made = await Promise.all(Array.from({ length: 5 }, () => group.getOrCreate({ name: 'job' })))
    expect(new Set(made.map(({ id }) => id)).size).toBe(1)
    expect([...(await a.list()), ...(await b.list())]).toHaveLength(1)
  })

  it('does not create a name elsewhere while a provider cannot be asked, unless told to', async () => {
    const { a, b, group, accounts } = setUp()
    await a.create({ name: 'job' })
    a.fault({ on: 'list', error: 'unavailable' })
    await expect(group.getOrCreate({ name: 'job' })).rejects.toMatchObject({ code: 'unavailable' })
    expect(await b.list()).toEqual([])
    expect(String(accounts[0])).toContain('could not be asked for “job”, so nothing was created')

    const other = setUp({ acceptDuplicateNames: true })
    other.a.fault({ on: 'list', error: 'unavailable', times: Infinity })
    expect((await other.group.getOrCreate({ name: 'job' })).provider).toBe('second')
    other.b.fault({ on: 'list', error: 'timeout', times: Infinity })
    await expect(other.group.getOrCreate({ name: 'job' })).rejects.toMatchObject({ code: 'unavailable' })
  })

  it('does not create a name elsewhere if a failed create may have left a sandbox', async () => {
    const { a, b, group, accounts } = setUp()
    a.fault({ on: 'create', error: 'connection_lost' })
    a.fault({ on: 'list', error: 'unavailable', after: 1 })
    await expect(group.getOrCreate({ name: 'job' })).rejects.toMatchObject({ code: 'connection_lost' })
    expect(await b.list()).toEqual([])
    expect(String(accounts[0])).toContain('may have been created at “memory”')
  })

  it('does not repeat the caller’s work in another sandbox', async () => {
    const { a, b, group, accounts } = setUp()
    let begun = 0
    const making = group.getOrCreate({
      name: 'job',
      onCreate: () => {
        begun += 1
        throw new SandboxError('unavailable', 'in the middle of it')
      },
    })
    await expect(making).rejects.toThrow('in the middle of it')
    expect([begun, await a.list(), await b.list()]).toEqual([1, [], []])
    expect(String(accounts[0])).toContain('is not repeated')
  })
})

describe('failover: other calls', () => {
  it('ids tell where sandboxes are; without a prefix every provider is asked', async () => {
    const { a, b, group } = setUp()
    await a.create()
    const there = await b.create()
    expect((await group.get(`second:${there.sandboxId}`)).provider).toBe('second')
    expect((await group.get(there.sandboxId)).sandboxId).toBe('b-1')
    await expect(group.get('nobody:x')).rejects.toMatchObject({ code: 'invalid_argument' })
    await expect(group.get('x')).rejects.toMatchObject({ code: 'not_found' })
    // A provider that could not be asked may know it.
    a.fault({ on: 'get', error: 'unavailable' })
    await expect(group.get('x')).rejects.toMatchObject({ code: 'unavailable' })
    expect([
      await group.destroy('second:b-1'),
      await group.destroy('b-1'),
      await group.destroy('a-1'),
    ]).toEqual([true, false, true])
  })

  it('lists the sandboxes of all providers, also in pages; an outage does not give a partial list', async () => {
    const { a, b, group } = setUp()
    for (let made = 0; made < 3; made += 1) await Promise.all([a.create(), b.create()])
    const whole = (await group.list()).map(({ id }) => id)
    expect(whole).toHaveLength(6)
    for (const limit of [1, 2, 3, 4, 6, 7]) {
      const paged: string[] = []
      for (let cursor: string | undefined, pages = 0; pages < 10; pages += 1) {
        const page = await group.list({ limit, cursor })
        expect(page.length).toBeLessThanOrEqual(limit)
        paged.push(...page.map(({ id }) => id))
        cursor = page.nextCursor
        if (cursor === undefined) break
      }
      expect(paged, `pages of ${limit}`).toEqual(whole)
    }
    await expect(group.list({ cursor: 'x' })).rejects.toMatchObject({ code: 'invalid_argument' })
    b.fault({ on: 'list', error: 'unavailable' })
    await expect(group.list()).rejects.toMatchObject({ code: 'unavailable' })
  })

  it('finds a sandbox by its name, and its handle, at any provider', async () => {
    const { a, b, group } = setUp()
    await a.create({ name: 'other' })
    const { sandboxId } = await b.create({ name: 'job' })
    expect((await group.get({ name: 'job' })).id).toBe(`second:${sandboxId}`)
    await expect(group.get({ name: 'none' })).rejects.toMatchObject({ code: 'not_found' })
    const handles = await group.listHandles({ limit: 1 })
    const more = await group.listHandles({ limit: 1, cursor: handles.nextCursor! })
    expect([...handles, ...more].map(({ id }) => id.split(':')[0])).toEqual(['memory', 'second'])
    a.fault({ on: 'find', error: 'unavailable' })
    await expect(group.get({ name: 'none' })).rejects.toMatchObject({ code: 'unavailable' })
  })

  it('finds a snapshot at its provider', async () => {
    const { a, b, group } = setUp()
    const { snapshotId } = await (await b.create()).snapshot()
    expect((await group.create({ snapshotId })).provider).toBe('second')
    a.fault({ on: 'create', error: 'unavailable' })
    await expect(group.create({ snapshotId: 'none' })).rejects.toMatchObject({ code: 'unavailable' })
    await expect(group.create({ snapshotId: 'none' })).rejects.toMatchObject({ code: 'not_found' })
    expect((await group.listSnapshots()).length).toBe(1)
    expect([await group.deleteSnapshot(snapshotId), await group.deleteSnapshot(snapshotId)]).toEqual([
      true,
      false,
    ])
  })

  it('is healthy while one provider is', async () => {
    const { a, b, group } = setUp()
    a.fault({ on: 'health', error: 'unavailable', times: 2 })
    expect(await group.healthCheck()).toBe(true)
    b.fault({ on: 'health', error: 'unavailable' })
    expect(await group.healthCheck()).toBe(false)
  })

  it('has the abilities and options that all providers have', async () => {
    const { group } = setUp({}, { capabilities: { fork: false }, createOptions: ['image'] })
    expect(Object.keys(group.capabilities)).not.toContain('fork')
    expect(group.capabilities).toMatchObject({ snapshot: 'native' })
    expect(group.createOptions.has('image')).toBe(false)
    await expect(group.create({ image: 'x' })).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringContaining('“second”'),
    })
    await expect(group.create({ runtime: 'x' })).rejects.toMatchObject({ code: 'unsupported' })
    await expect(group.create({ imag: 'x' } as object)).rejects.toMatchObject({ code: 'invalid_argument' })
    const none = failover(new MemoryProvider(), new MemoryProvider({ capabilities: { snapshot: false } }))
    // @ts-expect-error the type knows nothing of options that take abilities away, so this one is only found when it is called
    await expect(none.listSnapshots('x')).rejects.toMatchObject({ code: 'unsupported' })
  })

  it('adapt changes the options for each provider', async () => {
    const { a, b, clock } = setUp({}, { createOptions: ['image'] })
    a.fault({ on: 'create', error: 'unavailable' })
    const asked: unknown[] = []
    const group = failover(a, named(b, 'second'), {
      clock,
      adapt: (options, provider) => {
        asked.push(provider)
        return provider === 'memory' ? { ...options, image: 'node:24' } : options
      },
    })
    groups.push(group)
    await group.create({ label: 'x' })
    expect([asked, (await b.list())[0]?.label]).toEqual([['memory', 'second'], 'x'])
  })

  it('does not mix isolating providers with others, unless told to', () => {
    const local = new LocalProvider({ acceptNoIsolation: true })
    const memory = new MemoryProvider()
    expect(() => failover(memory, local)).toThrow(
      expect.objectContaining({
        code: 'invalid_argument',
        hint: expect.stringContaining('acceptNoIsolation'),
      }),
    )
    expect(failover(memory, local, { acceptNoIsolation: true })).toMatchObject({
      isolation: 'none',
      name: 'failover',
    })
    expect(failover(memory, memory)).toMatchObject({ isolation: 'simulated', name: 'memory' })
    expect(() => failover()).toThrow(/providers/)
    expect(() => failover(memory, { onchoice: () => {} } as FailoverOptions)).toThrow(/onChoice|onchoice/)
  })

  it('has snapshots that interrupt if those of one member do, also behind withRetry()', () => {
    const [keeps, ends] = [new MemoryProvider(), new MemoryProvider({ snapshotInterrupts: true })]
    expect(withRetry(ends).snapshotInterrupts).toBe(true)
    expect(failover(keeps, keeps).snapshotInterrupts).toBe(false)
    expect(failover(keeps, withRetry(ends)).snapshotInterrupts).toBe(true)
  })

  it('with retries inside: waits for a short outage, not for a long one', async () => {
    const { a, b, clock } = setUp()
    const group = failover(withRetry(a, { attempts: 2, baseMs: 1, maxMs: 2 }), named(b, 'second'), { clock })
    groups.push(group)
    a.fault({ on: 'create', error: 'rate_limited' })
    expect((await group.create()).provider).toBe('memory')
    a.fault({ on: 'create', error: 'rate_limited', times: 2 })
    expect((await group.create()).provider).toBe('second')
  })
})

/** A group is a provider: the kit passes on a group whose first member is full. */
const empty = new MemoryProvider()
const full = override(empty, {
  create: async (options) => {
    // It can still tell whether a snapshot exists.
    if (options?.snapshotId !== undefined) return empty.create(options)
    throw new SandboxError('unavailable', 'There is no room.')
  },
  getOrCreate: async () => {
    throw new SandboxError('unavailable', 'There is no room.')
  },
})
const second = new MemoryProvider()
const group = (member: MemoryProvider) => {
  const made = failover(full, member)
  groups.push(made)
  return made
}

conformance({
  title: 'conformance: failover to memory (simulated)',
  provider: () => group(second),
  commands: memoryCommands(second),
  reopen: () => group(second.reopen()),
  leftovers: (sandboxId) => second.running(sandboxId),
  egress: memoryEgress,
  without: { server: 'the memory provider has no network' },
  limits: { lifetimeMs: 150, commandTimeoutMs: 50 },
  runner: { describe, it },
})
