import { SandboxError, type SandboxInfo } from '@sandkasten/sdk'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { beforeEach, describe, expect, it } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { reconcile } from '../work/index.ts'
import { openTestRegistry, type TestRegistry, wrap } from './testing/registry.ts'

describeOnEachDatabase('a list', (newDatabase, kind) => {
  let good: MemoryProvider
  let bad: ReturnType<typeof wrap<MemoryProvider>>
  let registry: TestRegistry

  beforeEach(async () => {
    good = new MemoryProvider({ seed: 'good' })
    bad = wrap(new MemoryProvider({ seed: 'bad' }))
    Object.defineProperty(bad.provider, 'name', { value: 'other' })
    registry = await openTestRegistry(await newDatabase(), good, { others: [bad.provider] })
    await registry.sandboxes.create({ name: 'here', provider: 'memory' })
    await registry.sandboxes.create({ name: 'there', provider: 'other' })
  })

  const shown = async (options = {}) =>
    Object.fromEntries(
      (await registry.sandboxes.list(options)).map(({ name, status, unreachable, errorMessage }) => [
        name,
        { status, unreachable, errorMessage },
      ]),
    )
  /** A sandbox without remarks. */
  const fine = { status: 'running', unreachable: false, errorMessage: undefined }

  describe('a refreshed list', () => {
    it('remarks a provider that cannot be reached', async () => {
      await good.destroy('good-1')
      bad.instead.list = () => Promise.reject(new SandboxError('unavailable', 'It is away.'))
      expect(await shown({ refresh: true })).toEqual({
        here: {
          status: 'failed',
          unreachable: false,
          errorMessage: expect.stringContaining('no longer exists'),
        },
        there: { status: 'running', unreachable: true, errorMessage: expect.stringContaining('It is away.') },
      })
      // The remark is about the refresh, not about the sandbox.
      expect((await shown()).there).toEqual(fine)
    })

    it.each(['stop', 'snapshot'] as const)(
      'clears the remark of a %s that failed, which does not make the provider unreachable',
      async (operation) => {
        bad.instead[operation] = () => Promise.reject(new SandboxError('provider_error', 'Not now.'))
        const remarked = { ...fine, errorMessage: expect.stringContaining('Not now.') as string }
        for (const clear of [
          () => shown({ refresh: true }),
          () => registry.sandboxes.resume('there'),
          () => reconcile(registry.context),
        ]) {
          await expect(registry.sandboxes[operation]('there')).rejects.toMatchObject({
            code: 'provider_error',
          })
          expect((await shown()).there).toEqual(remarked)
          await clear()
          expect((await shown()).there).toEqual(fine)
        }
      },
    )

    it('keeps the reason of a status that needs one, and shows that status', async () => {
      const strange = async (real: () => Promise<unknown>) => {
        const found = (await real()) as SandboxInfo | SandboxInfo[]
        const change = (info: SandboxInfo) => ({ ...info, status: 'unknown', rawStatus: 'hibernating' })
        return Array.isArray(found) ? found.map(change) : change(found)
      }
      bad.instead.info = strange
      bad.instead.list = strange
      const unknown = {
        status: 'unknown',
        unreachable: false,
        errorMessage: 'The provider reports the status “hibernating”.',
      }
      for (let round = 0; round < 2; round += 1)
        expect((await shown({ refresh: true })).there).toEqual(unknown)
      expect((await shown()).there).toEqual(unknown)
      bad.instead.info = undefined
      bad.instead.list = undefined
      expect((await shown({ refresh: true })).there).toEqual(fine)
    })

    it('does not wait for a provider that does not answer', async () => {
      bad.instead.list = () => new Promise(() => {})
      const started = performance.now()
      expect(await shown({ refresh: { timeoutMs: 100 } })).toEqual({
        here: fine,
        there: {
          status: 'running',
          unreachable: true,
          errorMessage:
            'Asking other for its sandboxes took longer than 100 ms. Raise the time limit, or see whether the provider has a problem.',
        },
      })
      expect(performance.now() - started).toBeLessThan(2_000)
    })

    it('waits 5 seconds by default', async ({ skip }) => {
      if (kind === 'postgres') skip('the database does not matter')
      bad.instead.list = () => new Promise(() => {})
      const started = performance.now()
      expect((await shown({ refresh: true })).there).toMatchObject({ unreachable: true })
      expect(performance.now() - started).toBeGreaterThan(4_900)
      expect(performance.now() - started).toBeLessThan(8_000)
    })

    it('does not wait for a sandbox that an operation changes', async () => {
      const { id } = await registry.sandboxes.get('here')
      await good.destroy('good-1')
      await registry.context.leases.operate(id, 'snapshot', async () => {
        expect((await shown({ refresh: true })).here).toEqual(fine)
      })
    })

    it('ends with the caller', async () => {
      bad.instead.list = () => new Promise(() => {})
      const listing = registry.sandboxes.list({ refresh: true, signal: AbortSignal.timeout(50) })
      await expect(listing).rejects.toMatchObject({ code: 'aborted' })
    })
  })

  it('lists by provider, channel and status', async () => {
    const channel = registry.in({ channelId: 'c1' })
    await channel.create({ name: 'mine', provider: 'memory' })
    const names = async (options = {}) => (await channel.list(options)).map(({ name }) => name).sort()
    expect(await names()).toEqual(['here', 'mine', 'there'])
    expect(await names({ channel: true })).toEqual(['mine'])
    expect(await names({ provider: 'other' })).toEqual(['there'])
    await channel.stop('mine')
    expect(await names({ status: ['stopped', 'paused'] })).toEqual(['mine'])
    expect(await registry.in({ guildId: 'g' }).list()).toEqual([])
  })

  it('suggests names', async () => {
    await expect(registry.sandboxes.resume('hre')).rejects.toMatchObject({
      code: 'not_found',
      hint: 'Did you mean “here”?',
      details: { suggestions: ['here'] },
    })
  })

  it('shows no secret', async () => {
    await registry.sandboxes.create({ name: 'secret', provider: 'memory', envVars: { A: 'env-secret' } })
    await registry.sandboxes.setOpencodePassword('secret', 'open-sesame')
    await registry.sandboxes.setBaseUrl('secret', 'https://example.com/')
    expect(await registry.sandboxes.opencodePassword('secret')).toBe('open-sesame')
    expect(await registry.sandboxes.opencodePassword('here')).toBeUndefined()
    const shown = JSON.stringify(await registry.sandboxes.list())
    const { env, opencode_password } = await registry.row('secret')
    for (const secret of ['env-secret', 'open-sesame', env!, opencode_password!])
      expect(shown).not.toContain(JSON.stringify(secret).slice(1, -1))
    expect(JSON.stringify(await registry.row('secret'))).not.toMatch(/env-secret|open-sesame/)
    await expect(registry.sandboxes.setBaseUrl('secret', 'javascript:alert(1)')).rejects.toMatchObject({
      code: 'invalid_argument',
    })
    expect((await registry.sandboxes.get('secret')).baseUrl).toBe('https://example.com/')
  })

  it('attaches a thread to one sandbox at a time', async () => {
    expect(await registry.sandboxes.attach('t1', 'here')).toMatchObject({ name: 'here', threads: ['t1'] })
    expect(await registry.sandboxes.attach('t1', 'there')).toMatchObject({ threads: ['t1'] })
    expect(await registry.sandboxes.get('here')).toMatchObject({ threads: [] })
    expect(await registry.sandboxes.ofThread('t1')).toMatchObject({ name: 'there' })
    expect(await registry.sandboxes.detach('t1')).toBe(true)
    expect([await registry.sandboxes.detach('t1'), await registry.sandboxes.ofThread('t1')]).toEqual([
      false,
      undefined,
    ])
  })
})
