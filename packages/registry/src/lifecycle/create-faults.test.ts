import { SandboxError, type SandboxHandle } from '@sandkasten/sdk'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { beforeEach, expect, it } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { labels } from '../context.ts'
import type { DatabaseLocation } from '../store/index.ts'
import { killHolder } from '../store/testing/beside.ts'
import { settle } from './settle.ts'
import { gate, openTestRegistry, type TestRegistry, wrap } from './testing/registry.ts'

describeOnEachDatabase('a create that fails', (newDatabase) => {
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
  const unavailable = () => new SandboxError('unavailable', 'The provider is away.', { provider: 'memory' })
  /** What due work does. */
  const workOff = async (name: string, { context } = registry) =>
    context.leases.operate((await registry.row(name)).id, 'check', (lease) => settle({ context, lease }))

  it('refuses options that the provider lacks before anything exists, and names others', async () => {
    const others = [wrap(new MemoryProvider({ createOptions: ['image', 'resources'] })).provider]
    Object.defineProperty(others[0], 'name', { value: 'other' })
    registry = await openTestRegistry(await newDatabase(), wrapped.provider, { others })
    await expect(registry.sandboxes.create({ name: 'demo', image: 'node:24' })).rejects.toMatchObject({
      code: 'unsupported',
      details: { option: 'image' },
      hint: 'Leave it out, or choose another provider: other.',
    })
    expect(await registry.sandboxes.list({ destroyed: true })).toEqual([])
    expect(wrapped.counts.create).toBeUndefined()
  })

  it.each([
    [{ repo: 'a.b/c', upload: '/tmp' }, '`repo` and `upload`'],
    [{ gitToken: 'x' }, '`gitToken`'],
    [{ repo: 'https://user:pass@example.com/a' }, 'credentials'],
    [{ idleStopMs: 0 }, '`idleStopMs`'],
    [{ timeoutMs: -1 }, '`timeoutMs`'],
    [{ upload: '/no/such/folder' }, 'not a folder'],
    [{ name: 'Not A Name' }, 'cannot be the name'],
  ])('refuses %o before anything exists', async (options, message) => {
    await expect(registry.sandboxes.create(options)).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining(message),
    })
    expect([await registry.sandboxes.list({ destroyed: true }), await ids()]).toEqual([[], []])
  })

  it('frees the name when the provider refuses the arguments', async () => {
    await expect(registry.sandboxes.create({ name: 'demo', runtime: 'cobol85' })).rejects.toMatchObject({
      code: 'unsupported',
    })
    expect(await registry.sandboxes.list()).toEqual([])
    await registry.sandboxes.create({ name: 'demo' })
  })

  it('leaves a failed row with the reason, and no sandbox', async () => {
    memory.fault({ on: 'create', error: 'quota_exceeded' })
    await expect(registry.sandboxes.create({ name: 'demo' })).rejects.toMatchObject({
      code: 'quota_exceeded',
    })
    expect(await registry.sandboxes.get('demo')).toMatchObject({
      status: 'failed',
      errorMessage: expect.stringContaining('quota_exceeded'),
      providerSandboxId: undefined,
    })
    expect((await registry.row('demo')).due_at).toBeNull()
    // The row does not block its name.
    await registry.sandboxes.create({ name: 'demo' })
    expect(await registry.sandboxes.list()).toMatchObject([{ status: 'running' }])
  })

  it('finds and removes a sandbox whose response was lost', async () => {
    wrapped.instead.create = async (real) => {
      await real()
      throw new SandboxError('connection_lost', 'The answer was lost.')
    }
    await expect(registry.sandboxes.create({ name: 'demo' })).rejects.toMatchObject({
      code: 'connection_lost',
    })
    expect(await ids()).toEqual([])
    expect(await registry.row('demo')).toMatchObject({ status: 'failed', provider_sandbox_id: null })
    // One that the provider makes only now is found when the row is due.
    expect((await registry.row('demo')).due_at).not.toBeNull()
    const { id } = await registry.row('demo')
    await memory.create({
      labels: { [labels.registry]: registry.context.registryId, [labels.sandbox]: id, [labels.attempt]: '1' },
    })
    await workOff('demo')
    expect([await ids(), (await registry.row('demo')).due_at]).toEqual([[], null])
  })

  it('reports both failures when the search for a lost sandbox fails, and removes it later', async () => {
    wrapped.instead.create = async (real) => {
      await real()
      throw new SandboxError('connection_lost', 'The answer was lost.')
    }
    wrapped.instead.list = () => Promise.reject(unavailable())
    const failure = await registry.sandboxes.create({ name: 'demo' }).catch((error: unknown) => error)
    expect(failure).toMatchObject({
      code: 'connection_lost',
      message: expect.stringMatching(/lost.*provider is away/),
    })
    expect((failure as Error).cause).toMatchObject({
      errors: [{ code: 'connection_lost' }, { code: 'unavailable' }],
    })
    expect(await registry.row('demo')).toMatchObject({
      status: 'failed',
      error_message: expect.stringContaining('away'),
    })
    expect(await ids()).toHaveLength(1)
    // Neither the next operation nor due work forgets it.
    await expect(registry.sandboxes.resume('demo')).rejects.toMatchObject({ code: 'unavailable' })
    await expect(workOff('demo')).rejects.toMatchObject({ code: 'unavailable' })
    wrapped.instead.list = undefined
    await workOff('demo')
    expect(await ids()).toEqual([])
  })

  it('keeps the sandbox in the row when a later step fails and so does removing it', async () => {
    wrapped.instead.info = () => Promise.reject(new SandboxError('rate_limited', 'Too many requests.'))
    wrapped.instead.destroy = () => Promise.reject(unavailable())
    await expect(registry.sandboxes.create({ name: 'demo' })).rejects.toMatchObject({
      code: 'rate_limited',
      message: expect.stringMatching(/Too many requests.*provider is away.*mem-1/),
    })
    expect(await registry.row('demo')).toMatchObject({
      status: 'failed',
      provider_sandbox_id: 'mem-1',
      lease_holder: null,
    })
    expect((await registry.row('demo')).due_at).not.toBeNull()
    wrapped.instead.info = undefined
    wrapped.instead.destroy = undefined
    await expect(registry.sandboxes.resume('demo')).rejects.toMatchObject({
      code: 'not_found',
      message: expect.stringContaining('Too many requests'),
    })
    expect([await ids(), (await registry.row('demo')).provider_sandbox_id]).toEqual([[], null])
  })

  it('removes the sandbox by its id at a provider without labels', async () => {
    const createOptions = new Set([...memory.createOptions].filter((option) => option !== 'labels'))
    Object.defineProperty(wrapped.provider, 'createOptions', { value: createOptions })
    wrapped.instead.info = () => Promise.reject(unavailable())
    await expect(registry.sandboxes.create({ name: 'demo' })).rejects.toMatchObject({ code: 'unavailable' })
    expect([await ids(), (await registry.row('demo')).provider_sandbox_id]).toEqual([[], null])
    expect(wrapped.counts.list).toBeUndefined()
  })

  it('cleans up and frees the name when the caller cancels', async () => {
    const stop = new AbortController()
    memory.command('git', async ({ signal }) => {
      stop.abort()
      await new Promise((resolve) => signal?.addEventListener('abort', resolve))
      return 1
    })
    const repo = 'https://example.com/a/b'
    await expect(
      registry.sandboxes.create({ name: 'demo', repo, signal: stop.signal }),
    ).rejects.toMatchObject({
      code: 'aborted',
    })
    expect([await ids(), await registry.sandboxes.list()]).toEqual([[], []])
    expect(await registry.row('demo')).toMatchObject({ live: 0, lease_holder: null })
  })

  it('gives up on a provider that never answers, and destroys what it makes afterwards', async () => {
    const late = gate()
    let made: Promise<SandboxHandle> | undefined
    wrapped.instead.create = async (_, [options]) => {
      await late.pass()
      // It ignores the signal.
      made = memory.create({ ...(options as object), signal: undefined })
      return made
    }
    const started = performance.now()
    await expect(registry.sandboxes.create({ name: 'demo', timeoutMs: 100 })).rejects.toMatchObject({
      code: 'timeout',
    })
    expect(performance.now() - started).toBeLessThan(3_000)
    expect(await registry.sandboxes.get('demo')).toMatchObject({
      status: 'failed',
      errorMessage: expect.stringContaining('longer than 100 ms'),
    })
    late.open()
    await expect.poll(() => made).toBeDefined()
    expect((await made)!.sandboxId).toBe('mem-1')
    await expect.poll(ids).toEqual([])
  })

  it('has a limit of its own for a provider that never answers', async () => {
    registry = await openTestRegistry(location, wrapped.provider, { timeouts: { changeMs: 100 } })
    memory.fault({ on: 'create', delayMs: 60_000 })
    await expect(registry.sandboxes.create({ name: 'demo' })).rejects.toMatchObject({
      code: 'timeout',
      message: 'Creating “demo” at memory took longer than 100 ms.',
    })
  })

  it('keeps secrets out of the reason', async () => {
    wrapped.instead.create = () =>
      Promise.reject(new SandboxError('provider_error', 'Bad value hunter2-hunter2 of A.'))
    await registry.sandboxes.create({ name: 'demo', envVars: { A: 'hunter2-hunter2' } }).catch(() => {})
    expect((await registry.row('demo')).error_message).toContain('Bad value *** of A.')
    expect(JSON.stringify(await registry.row('demo'))).not.toContain('hunter2')
  })

  it.each(['before', 'after'])(
    'is undone by another process when its process dies %s the sandbox is made',
    async (when) => {
      const dying = gate()
      wrapped.instead.create = async (real) => {
        const made = when === 'after' ? await real() : undefined
        await dying.pass()
        return made ?? real()
      }
      const zombie = registry.sandboxes.create({ name: 'demo' }).catch((error: unknown) => error)
      await dying.reached
      await killHolder(location, 'demo')
      const other = await openTestRegistry(location, memory)
      await expect(other.sandboxes.resume('demo')).rejects.toMatchObject({
        code: 'not_found',
        message: expect.stringContaining('The process that created it ended'),
      })
      expect([await ids(), (await registry.row('demo')).status]).toEqual([[], 'failed'])
      await other.sandboxes.create({ name: 'demo' })
      // The process was only slow: its sandbox does not survive, and that of the other process does.
      dying.open()
      expect(await zombie).toMatchObject({ code: 'interrupted' })
      const { handle } = await other.sandboxes.resume('demo')
      expect(await ids()).toEqual([handle.sandboxId])
    },
  )

  it('is recovered only when the provider can be asked, and the row says so until then', async () => {
    const dying = gate()
    wrapped.instead.create = async (real) => {
      const made = await real()
      await dying.pass()
      return made
    }
    const zombie = registry.sandboxes.create({ name: 'demo' }).catch(() => {})
    await dying.reached
    await killHolder(location, 'demo')
    const { provider, instead } = wrap(memory)
    instead.list = () => Promise.reject(unavailable())
    const other = await openTestRegistry(location, provider)
    for (let tries = 0; tries < 2; tries += 1)
      await expect(other.sandboxes.resume('demo')).rejects.toMatchObject({ code: 'unavailable' })
    expect(await registry.row('demo')).toMatchObject({
      status: 'creating',
      operation: 'create',
      error_message: expect.stringContaining('The provider is away'),
    })
    expect(await ids()).toHaveLength(1)
    instead.list = undefined
    await expect(other.sandboxes.resume('demo')).rejects.toMatchObject({ code: 'not_found' })
    expect(await ids()).toEqual([])
    dying.open()
    await zombie
  })

  it('touches nothing of other rows and other registries', async () => {
    const first = await registry.sandboxes.create({ name: 'first' })
    const sibling = await openTestRegistry(await newDatabase(), memory)
    const theirs = await sibling.sandboxes.create({ name: 'demo' })
    const strange: SandboxHandle = await memory.create({ labels: { [labels.sandbox]: 'x' } })
    // A provider that does not filter by labels.
    wrapped.instead.list = () => memory.list()
    wrapped.instead.create = async (real) => {
      await real()
      throw new SandboxError('connection_lost', 'The answer was lost.')
    }
    await expect(registry.sandboxes.create({ name: 'demo' })).rejects.toMatchObject({
      code: 'connection_lost',
    })
    expect((await ids()).sort()).toEqual(
      [first, theirs]
        .map(({ handle }) => handle.sandboxId)
        .concat(strange.sandboxId)
        .sort(),
    )
  })
})
