import { AsyncLocalStorage } from 'node:async_hooks'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { beforeEach, describe, expect, it } from 'vitest'
import { ManualClock, MemoryProvider } from '../providers/memory/index.ts'
import { override } from '../shared/override.ts'
import { type Opening, ProviderSandboxExecutor, type ProviderSandboxExecutorOptions } from './index.ts'

const minute = 60_000

describe('ProviderSandboxExecutor', () => {
  let clock: ManualClock
  let provider: MemoryProvider
  let openings: Opening[]
  beforeEach(() => {
    clock = new ManualClock(Date.parse('2026-01-01T12:00:00Z'))
    provider = new MemoryProvider({ clock, seed: 'mem' })
    provider.command('echo', async ({ args, stdout }) => {
      await stdout.write(args.join(' '))
      return 0
    })
    openings = []
  })

  const make = (options: Partial<ProviderSandboxExecutorOptions> = {}) => {
    const { keepAlive = {}, ...rest } = options
    return new ProviderSandboxExecutor({
      provider,
      create: { lifetimeMs: 5 * minute },
      keepAlive: keepAlive === false ? false : { clock, ...(keepAlive === true ? {} : keepAlive) },
      onOpen: (opening) => openings.push(opening),
      ...rest,
    })
  }
  const status = async (executor: ProviderSandboxExecutor) => (await executor.sandbox()).status()
  const files = () => openings.map((opening) => [opening.files, opening.reason])

  describe('keeps the sandbox alive', () => {
    it('between calls, until the conversation is idle; the next call starts again', async () => {
      const executor = make({ keepAlive: { idleMs: 30 * minute } })
      await executor.writeFile('a', 'x')
      const sandbox = await executor.sandbox()
      await clock.advance(29 * minute)
      expect(await sandbox.status()).toBe('running')
      await executor.readFile('a')
      await clock.advance(29 * minute)
      expect(await sandbox.status()).toBe('running')
      await clock.advance(7 * minute)
      expect(await sandbox.status()).toBe('stopped')
      expect(await executor.readFile('a')).toBe('x')
      await clock.advance(20 * minute)
      expect(await status(executor)).toBe('running')
      expect(files()).toEqual([
        ['new', undefined],
        ['kept', 'not_running'],
      ])
    })

    it('during a call that takes longer than the idle time', async () => {
      provider.command('long', async (context) => {
        await context.clock.sleep(60 * minute)
        return 7
      })
      const executor = make({ keepAlive: { idleMs: minute } })
      const long = executor.execute('long', [], { timeout: 120 * minute })
      await clock.advance(61 * minute)
      expect(await long).toMatchObject({ exitCode: 7, timedOut: false })
    })

    it('no longer after cleanup()', async () => {
      const executor = make()
      await executor.writeFile('a', 'x')
      await executor.cleanup()
      const looks = provider.fault({ on: 'info', times: Infinity })
      await clock.advance(20 * minute)
      expect(looks.hits).toBe(0)
    })

    it('without keeping the program running', async () => {
      const program = `
        import { MemoryProvider } from '@sandkasten/sdk/memory'
        import { ProviderSandboxExecutor } from '@sandkasten/sdk/executor'
        const executor = new ProviderSandboxExecutor({ provider: new MemoryProvider() })
        await executor.writeFile('a', 'x')
        console.log(await executor.readFile('a'))`
      const args = ['--conditions=sandkasten-source', '--input-type=module', '-e', program]
      const { stdout } = await promisify(execFile)(process.execPath, args, {
        cwd: import.meta.dirname,
        timeout: 20_000,
      })
      expect(stdout).toBe('x\n')
    })

    it('not at all if told so, or if the provider cannot', async () => {
      const executor = make({ keepAlive: false })
      await executor.writeFile('a', 'x')
      const sandbox = await executor.sandbox()
      await clock.advance(6 * minute)
      expect(await sandbox.status()).toBe('stopped')
      provider = new MemoryProvider({ clock, capabilities: { lifetime: false } })
      await make({ create: {} }).writeFile('a', 'x')
    })

    it('in the async context of the newest call', async () => {
      const contexts = new AsyncLocalStorage<string>()
      const seen: Array<string | undefined> = []
      const executor = make({
        keepAlive: { everyMs: minute },
        provider: observed(provider, () => seen.push(contexts.getStore())),
      })
      await contexts.run('first', () => executor.writeFile('a', 'x'))
      await clock.advance(2 * minute)
      expect(new Set(seen)).toEqual(new Set(['first']))
      seen.length = 0
      await contexts.run('second', () => executor.readFile('a'))
      await clock.advance(2 * minute)
      expect(new Set(seen)).toEqual(new Set(['second']))
    })
  })

  describe('opens the sandbox again', () => {
    it('after its lifetime: the same disk, and the result says so', async () => {
      const executor = make({ keepAlive: false })
      await executor.writeFile('a', 'x')
      await clock.advance(6 * minute)
      const result = await executor.execute('echo', ['hi'])
      expect(result).toMatchObject({
        stdout: 'hi',
        reopened: { sandboxId: 'mem-1', files: 'kept', reason: 'not_running' },
      })
      expect(executor.lastOpening).toEqual(result.reopened)
      expect((await executor.execute('echo', ['hi'])).reopened).toBeUndefined()
      expect(await executor.readFile('a')).toBe('x')
    })

    it('after another caller has restarted it', async () => {
      const executor = make()
      await executor.writeFile('a', 'x')
      const other = await provider.get('mem-1')
      await other.stop()
      await other.start()
      expect(await executor.readFile('a')).toBe('x')
      expect(files().at(-1)).toEqual(['kept', 'interrupted'])
    })

    it('after it has been destroyed: it is new, and files are lost', async () => {
      const executor = make()
      await executor.writeFile('a', 'x')
      await provider.destroy('mem-1')
      expect(await executor.readFile('a')).toBeNull()
      expect(openings.at(-1)).toEqual({ sandboxId: 'mem-2', files: 'lost', reason: 'not_found' })
    })

    it('once for concurrent calls', async () => {
      const executor = make({ keepAlive: false })
      await executor.writeFile('a', 'x')
      await clock.advance(6 * minute)
      const starts = provider.fault({ on: 'start', times: Infinity })
      const results = await Promise.all(
        Array.from({ length: 20 }, (_, at) =>
          at % 2 ? executor.execute('echo', ['hi']) : executor.readFile('a'),
        ),
      )
      expect(new Set(results.map((each) => (typeof each === 'string' ? each : each?.stdout)))).toEqual(
        new Set(['x', 'hi']),
      )
      expect(openings).toHaveLength(2)
      expect(starts.hits).toBeLessThanOrEqual(1)
    })

    it('with the call after one that failed to', async () => {
      const executor = make({ keepAlive: false })
      await executor.writeFile('a', 'x')
      await provider.destroy('mem-1')
      provider.fault({ on: 'create', error: 'unavailable' })
      await expect(executor.readFile('a')).rejects.toMatchObject({ code: 'unavailable' })
      const result = await executor.execute('echo')
      expect(result.reopened).toMatchObject({ files: 'lost' })
    })

    it('but never repeats a command that had started', async () => {
      let runs = 0
      provider.command('count', async ({ stdout }) => {
        runs += 1
        await stdout.write('x')
        return 0
      })
      const executor = make()
      await executor.listFiles()
      provider.fault({ on: 'output', error: 'not_running' })
      await expect(executor.execute('count')).rejects.toMatchObject({
        code: 'not_running',
        message: expect.stringContaining('while the command ran'),
        hint: expect.stringContaining('next call'),
      })
      expect(runs).toBe(1)
      provider.fault({ on: 'spawn', error: 'not_running' })
      expect((await executor.execute('count')).reopened).toMatchObject({ files: 'kept' })
      expect(runs).toBe(2)
    })

    it('not after a second failure in a row, and not for other errors', async () => {
      const executor = make()
      await executor.listFiles()
      provider.fault({ on: 'spawn', error: 'not_running', times: 2 })
      await expect(executor.execute('echo')).rejects.toMatchObject({ code: 'not_running' })
      provider.fault({ on: 'spawn', error: 'unavailable' })
      await expect(executor.execute('echo')).rejects.toMatchObject({ code: 'unavailable' })
      expect(openings).toHaveLength(2)
    })

    it('not for a call from before cleanup()', async () => {
      const executor = make()
      await executor.writeFile('a', 'x')
      const slow = provider.fault({ on: 'readStream', delayMs: minute, error: 'not_found' })
      const reading = executor.readFile('a').catch((error) => error.code)
      await expect.poll(() => slow.hits).toBe(1)
      await executor.cleanup()
      await clock.advance(2 * minute)
      expect(await reading).toBe('not_found')
      expect(await provider.list()).toEqual([])
    })
  })

  describe('snapshots', () => {
    it('a sandbox that is gone is opened from the last one', async () => {
      const executor = make()
      await executor.writeFile('a', 'saved')
      const { snapshotId } = await executor.snapshot()
      await executor.writeFile('a', 'later')
      await provider.destroy('mem-1')
      expect(await executor.readFile('a')).toBe('saved')
      expect(openings.at(-1)).toEqual({
        sandboxId: 'mem-2',
        files: 'restored',
        reason: 'not_found',
        snapshotId,
      })
    })

    it('without its snapshot it is opened empty', async () => {
      const executor = make()
      await executor.writeFile('a', 'x')
      await provider.deleteSnapshot((await executor.snapshot()).snapshotId)
      await provider.destroy('mem-1')
      expect(await executor.readFile('a')).toBeNull()
      expect(files().at(-1)).toEqual(['lost', 'not_found'])
    })

    it('are taken before the end if it cannot be moved; only the last is kept, and none after cleanup()', async () => {
      const executor = make({ keepAlive: { autoSnapshot: true } })
      provider.fault({ on: 'extendTimeout', error: 'quota_exceeded', times: Infinity })
      await executor.writeFile('a', 'x')
      await executor.snapshot()
      await clock.advance(6 * minute)
      expect(await provider.listSnapshots()).toHaveLength(1)
      await provider.destroy('mem-1')
      expect(await executor.readFile('a')).toBe('x')
      expect(files().at(-1)).toEqual(['restored', 'not_found'])
      await executor.cleanup()
      expect([await provider.listSnapshots(), await provider.list()]).toEqual([[], []])
    })

    it('a snapshot that is ready only after cleanup() is deleted', async () => {
      const late = Promise.withResolvers<void>()
      const slow = override(provider, {
        getOrCreate: async (options) => {
          const sandbox = await provider.getOrCreate(options)
          return override(sandbox, {
            snapshot: async (call) => {
              const made = await sandbox.snapshot(call)
              await late.promise
              return made
            },
          })
        },
      })
      const executor = make({ provider: slow })
      const saving = executor.snapshot()
      await expect.poll(() => provider.listSnapshots()).toHaveLength(1)
      await executor.cleanup()
      late.resolve()
      await saving
      expect(await provider.listSnapshots()).toEqual([])
    })
  })

  it('two executors of one conversation share a sandbox; either one cleans up', async () => {
    const [first, second] = [make({ conversationId: 'c' }), make({ conversationId: 'c' })]
    await first.writeFile('a', 'x')
    expect(await second.readFile('a')).toBe('x')
    expect(files()).toEqual([
      ['new', undefined],
      ['kept', undefined],
    ])
    await make({ conversationId: 'c' }).cleanup()
    expect(await provider.list()).toEqual([])
  })

  it('reads no more than asked for', async () => {
    const executor = make()
    await executor.writeFile('a', 'x'.repeat(100))
    await expect(executor.readFile('a', { maxBytes: 10 })).rejects.toMatchObject({ code: 'too_large' })
  })
})

/** Calls back for each look at a sandbox. */
function observed(provider: MemoryProvider, onInfo: () => void): MemoryProvider {
  return override(provider, {
    getOrCreate: async (options) => {
      const sandbox = await provider.getOrCreate(options)
      return override(sandbox, {
        info: async (call) => {
          onInfo()
          return sandbox.info(call)
        },
      })
    },
  })
}
