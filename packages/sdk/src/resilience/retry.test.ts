import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { errorTable, SandboxError, type SandboxErrorCode } from '../errors.ts'
import { type FaultPoint, ManualClock, MemoryProvider } from '../providers/memory/index.ts'
import { conformance, memoryCommands, memoryEgress } from '../testing/index.ts'
import { type Retry, type RetryOptions, retry } from './retry.ts'
import { withRetry } from './with-retry.ts'

const codes = Object.keys(errorTable) as SandboxErrorCode[]
const quick = { baseMs: 1, maxMs: 2 }

describe('retry', () => {
  it.each(codes)('%s: retries or not, as in the table', async (code) => {
    let calls = 0
    const call = retry(async () => {
      calls += 1
      if (calls < 3) throw new SandboxError(code, 'told to fail')
      return 'done'
    }, quick)
    if (errorTable[code].retryable) expect([await call, calls]).toEqual(['done', 3])
    else {
      await expect(call).rejects.toMatchObject({ code })
      expect(calls).toBe(1)
    }
  })

  it('does not retry a foreign error', async () => {
    let calls = 0
    const call = retry(async () => {
      calls += 1
      throw new TypeError('a defect')
    }, quick)
    await expect(call).rejects.toThrow('a defect')
    expect(calls).toBe(1)
  })

  it('gives up after the last attempt, with its error', async () => {
    const retries: Retry[] = []
    const error = new SandboxError('unavailable', 'down', { requestId: 'r-1' })
    const call = retry(() => Promise.reject(error), {
      ...quick,
      attempts: 3,
      onRetry: (told) => retries.push(told),
    })
    await expect(call).rejects.toBe(error)
    expect(retries.map(({ attempt }) => attempt)).toEqual([1, 2])
  })

  it('waits longer each time, with jitter, and never longer than maxMs', async () => {
    const waits: number[][] = []
    for (let run = 0; run < 20; run += 1) {
      const clock = new ManualClock()
      const own: number[] = []
      waits.push(own)
      const call = retry(() => Promise.reject(new SandboxError('unavailable', 'down')), {
        clock,
        attempts: 7,
        baseMs: 100,
        maxMs: 1000,
        onRetry: ({ waitMs }) => own.push(waitMs),
      }).catch(() => {})
      await clock.advance(10_000)
      await call
    }
    const most = [100, 200, 400, 800, 1000, 1000]
    for (const own of waits) {
      expect(own).toHaveLength(6)
      for (const [index, wait] of own.entries()) {
        expect(wait).toBeGreaterThanOrEqual(most[index]! / 2)
        expect(wait).toBeLessThanOrEqual(most[index]!)
      }
    }
    expect(new Set(waits.map(([first]) => first)).size).toBeGreaterThan(1)
  })

  it('waits as long as the provider asks, and not at all if that is too long', async () => {
    const limited = (retryAfterMs: number) =>
      new SandboxError('rate_limited', 'slow', { details: { retryAfterMs } })
    const clock = new ManualClock()
    let calls = 0
    const call = retry(
      async () => {
        calls += 1
        if (calls === 1) throw limited(20_000)
        return clock.now()
      },
      { clock, baseMs: 1, maxMs: 30_000 },
    )
    await clock.advance(19_999)
    expect(calls).toBe(1)
    await clock.advance(1)
    expect(await call).toBe(20_000)

    calls = 0
    const never = retry(
      async () => {
        calls += 1
        throw limited(60_000)
      },
      { clock, maxMs: 30_000 },
    )
    await expect(never).rejects.toMatchObject({ code: 'rate_limited', details: { retryAfterMs: 60_000 } })
    expect([calls, clock.pending]).toEqual([1, 0])
  })

  it('can be cancelled while it waits, and leaves no timer', async () => {
    const clock = new ManualClock()
    const controller = new AbortController()
    const call = retry(() => Promise.reject(new SandboxError('unavailable', 'down')), {
      clock,
      signal: controller.signal,
    })
    const rejected = expect(call).rejects.toMatchObject({ code: 'aborted' })
    await clock.advance(0)
    expect(clock.pending).toBe(1)
    controller.abort()
    await rejected
    expect(clock.pending).toBe(0)
  })

  it('by default, makes four attempts and starts with a quarter of a second', async () => {
    const clock = new ManualClock()
    const waits: number[] = []
    let calls = 0
    const call = retry(
      async () => {
        calls += 1
        throw new SandboxError('unavailable', 'down')
      },
      { clock, onRetry: ({ waitMs }) => waits.push(waitMs) },
    )
    const rejected = expect(call).rejects.toMatchObject({ code: 'unavailable' })
    await clock.advance(60_000)
    await rejected
    expect(calls).toBe(4)
    for (const [index, wait] of waits.entries()) expect(wait).toBeGreaterThanOrEqual(125 * 2 ** index)
    expect(waits[0]).toBeLessThanOrEqual(250)

    for (const [retryAfterMs, attempts] of [
      [30_000, 4],
      [30_001, 1],
    ] as const) {
      calls = 0
      const limited = retry(
        async () => {
          calls += 1
          throw new SandboxError('rate_limited', 'slow', { details: { retryAfterMs } })
        },
        { clock },
      ).catch((error) => error.code)
      await clock.advance(100_000)
      expect([await limited, calls]).toEqual(['rate_limited', attempts])
    }
  })

  it('keeps a waiting process alive', async () => {
    const program = `
      import { retry, SandboxError } from '@sandkasten/sdk'
      const down = new SandboxError('unavailable', 'down')
      console.log(await retry((attempt) => (attempt < 3 ? Promise.reject(down) : Promise.resolve('attempt ' + attempt))))
    `
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--conditions=sandkasten-source', '--input-type=module', '-e', program],
      { cwd: path.resolve(import.meta.dirname, '../..') },
    )
    expect(stdout).toBe('attempt 3\n')
  })

  it('rejects invalid options', () => {
    expect(() => retry(async () => 1, { attempts: 0 })).toThrow(/attempts/)
    expect(() => retry(async () => 1, { tries: 3 } as RetryOptions)).toThrow(/tries/)
  })
})

describe('withRetry', () => {
  /** A sandbox with files and processes, from a provider that is not wrapped. */
  async function setUp(options: RetryOptions = {}) {
    const memory = new MemoryProvider()
    memory.command('greet', async ({ stdout }) => {
      await stdout.write('hello')
      return 0
    })
    memory.command('wait', ({ signal }) => new Promise((ended) => signal.addEventListener('abort', ended)))
    const retries: string[] = []
    const provider = withRetry(memory, { ...quick, onRetry: ({ call }) => retries.push(call!), ...options })
    const made = await provider.create({ name: 'one' })
    await made.writeFile('there', 'x')
    return { memory, provider, sandbox: made, retries }
  }
  type World = Awaited<ReturnType<typeof setUp>>
  type Call = (world: World) => Promise<unknown>

  const repeated: Array<[FaultPoint, string, Call]> = [
    ['get', 'get', ({ provider, sandbox }) => provider.get(sandbox.id)],
    ['find', 'getOrCreate', ({ provider }) => provider.getOrCreate({ name: 'one' })],
    ['list', 'list', ({ provider }) => provider.list()],
    ['find', 'get', ({ provider }) => provider.get({ name: 'one' })],
    ['list', 'listHandles', ({ provider }) => provider.listHandles()],
    ['stat', 'stat', async ({ provider }) => (await provider.listHandles())[0]!.files.stat('there')],
    ['readStream', 'readLines', ({ sandbox }) => sandbox.files.readLines('there')],
    ['readStream', 'readFileOrNull', ({ sandbox }) => sandbox.files.readFileOrNull('there')],
    ['health', 'healthCheck', ({ provider }) => provider.healthCheck()],
    ['destroy', 'destroy', ({ provider, sandbox }) => provider.destroy(sandbox.id)],
    ['listSnapshots', 'listSnapshots', ({ provider }) => provider.listSnapshots()],
    ['info', 'status', ({ sandbox }) => sandbox.status()],
    ['extendTimeout', 'extendTimeout', ({ sandbox }) => sandbox.extendTimeout(1000)],
    ['getEndpoint', 'getUrl', ({ sandbox }) => sandbox.getUrl(80)],
    ['stop', 'stop', ({ sandbox }) => sandbox.stop()],
    ['pause', 'pause', ({ sandbox }) => sandbox.pause()],
    ['destroy', 'destroy', ({ sandbox }) => sandbox.destroy()],
    ['listProcesses', 'listProcesses', ({ sandbox }) => sandbox.listProcesses()],
    ['readStream', 'readStream', ({ sandbox }) => sandbox.files.readStream('there')],
    ['stat', 'stat', ({ sandbox }) => sandbox.files.stat('there')],
    ['writeFile', 'writeFile', ({ sandbox }) => sandbox.files.writeFile('there', 'y')],
    ['mkdir', 'mkdir', ({ sandbox }) => sandbox.files.mkdir('a/b', { recursive: true })],
    ['spawn', 'spawn', ({ sandbox }) => sandbox.spawn({ cmd: 'greet', execId: 'job' })],
    [
      'spawn',
      'runCommand',
      ({ sandbox }) => sandbox.runCommand({ cmd: 'greet', execId: 'job', detached: true }),
    ],
    ['output', 'wait', async ({ sandbox }) => (await sandbox.spawn({ cmd: 'greet' })).wait()],
    ['processStatus', 'status', async ({ sandbox }) => (await sandbox.spawn({ cmd: 'greet' })).status()],
    ['stat', 'stat', ({ sandbox }) => sandbox.restricted().files.stat('there')],
    ['spawn', 'spawn', ({ sandbox }) => sandbox.restricted().spawn({ cmd: 'greet', execId: 'job' })],
  ]
  it.each(repeated)('%s fails twice, and %s still succeeds', async (point, name, call) => {
    const world = await setUp()
    const fault = world.memory.fault({ on: point, error: 'unavailable', times: 2 })
    await call(world)
    expect([fault.hits, world.retries]).toEqual([2, [name, name]])
  })

  const once: Array<[FaultPoint, string, Call]> = [
    ['create', 'create', ({ provider }) => provider.create()],
    ['spawn', 'a command', ({ sandbox }) => sandbox.runCommand({ cmd: 'greet' })],
    ['output', 'a command that already runs', ({ sandbox }) => sandbox.runCommand({ cmd: 'greet' })],
    ['spawn', 'a process without an id', ({ sandbox }) => sandbox.spawn({ cmd: 'greet' })],
    [
      'spawn',
      'a process whose input is a stream',
      ({ sandbox }) =>
        sandbox.spawn({ cmd: 'greet', execId: 'job', stdin: new Blob(['x']).stream() as never }),
    ],
    ['snapshot', 'snapshot', ({ sandbox }) => sandbox.snapshot()],
    ['appendFile', 'appendFile', ({ sandbox }) => sandbox.files.appendFile('there', 'y')],
    ['rename', 'rename', ({ sandbox }) => sandbox.files.rename('there', 'here')],
    ['rm', 'rm', ({ sandbox }) => sandbox.files.rm('there')],
    ['mkdir', 'mkdir', ({ sandbox }) => sandbox.files.mkdir('a')],
    [
      'writeFile',
      'a stream',
      ({ sandbox }) => sandbox.files.writeFile('there', new Blob(['x']).stream() as never),
    ],
    ['kill', 'SIGTERM', async ({ sandbox }) => (await sandbox.spawn({ cmd: 'wait' })).kill('SIGTERM')],
  ]
  it.each(once)('%s: %s is not repeated', async (point, _, call) => {
    const world = await setUp()
    const fault = world.memory.fault({ on: point, error: 'connection_lost', times: 2 })
    await expect(call(world)).rejects.toMatchObject({ code: 'connection_lost' })
    expect([fault.hits, world.retries]).toEqual([1, []])
  })

  it('runs a command once, whatever failed', async () => {
    const { memory, sandbox } = await setUp()
    for (const code of codes.filter((code) => errorTable[code].retryable)) {
      const before = memory.calls.length
      memory.fault({ on: 'output', error: code })
      await expect(sandbox.runCommand({ cmd: 'greet' })).rejects.toMatchObject({ code })
      expect(memory.calls.length - before).toBe(1)
    }
  })

  it('repeats a create that was refused, but not one that may have been carried out', async () => {
    const { memory, provider, retries } = await setUp()
    memory.fault({ on: 'create', error: 'rate_limited', times: 2 })
    await provider.create()
    expect([retries, (await memory.list()).length]).toEqual([['create', 'create'], 2])
  })

  it('getOrCreate: does not repeat the caller’s work', async () => {
    const { provider } = await setUp()
    let begun = 0
    const failing = provider.getOrCreate({
      name: 'two',
      onCreate: () => {
        begun += 1
        throw new SandboxError('rate_limited', 'in the middle of it')
      },
    })
    await expect(failing).rejects.toMatchObject({ code: 'rate_limited' })
    expect(begun).toBe(1)
  })

  it('getOrCreate: does not use a sandbox of a lost attempt that was never set up', async () => {
    const { memory, provider } = await setUp()
    const fault = memory.fault({ on: 'find', error: 'connection_lost', times: 5 })
    const call = provider.getOrCreate({ name: 'two', onCreate: () => {} })
    await expect(call).rejects.toMatchObject({ code: 'connection_lost' })
    expect(fault.hits).toBe(1)
  })

  it('is cancelled by the call’s own signal while it waits', async () => {
    const { memory, sandbox } = await setUp({ baseMs: 60_000, maxMs: 60_000 })
    const fault = memory.fault({ on: 'info', error: 'unavailable', times: Infinity })
    const controller = new AbortController()
    const call = sandbox.status({ signal: controller.signal })
    const rejected = expect(call).rejects.toMatchObject({ code: 'aborted' })
    await expect.poll(() => fault.hits).toBe(1)
    controller.abort()
    await rejected
  })

  it('wraps a single sandbox, too', async () => {
    const memory = new MemoryProvider()
    const real = await memory.create()
    const sandbox = withRetry(real, quick)
    memory.fault({ on: 'info', error: 'timeout' })
    expect([await sandbox.status(), sandbox.id, sandbox.capabilities]).toEqual([
      'running',
      real.id,
      real.capabilities,
    ])
    expect(sandbox).toBeInstanceOf(real.constructor)
  })
})

/** The wrapped provider is still a provider: the kit passes on it, although many calls fail at first. */
const memory = new MemoryProvider()
const faults = (['get', 'list', 'info', 'stat', 'readStream', 'getProcess', 'find'] as const).flatMap((on) =>
  Array.from({ length: 300 }, (_, index) =>
    memory.fault({
      on,
      error: on === 'find' || on === 'get' ? 'rate_limited' : 'unavailable',
      after: 3 * index,
      times: 1,
    }),
  ),
)

conformance({
  title: 'conformance: withRetry over memory (simulated)',
  provider: () => withRetry(memory, quick),
  commands: memoryCommands(memory),
  reopen: () => withRetry(memory.reopen(), quick),
  leftovers: (sandboxId) => memory.running(sandboxId),
  egress: memoryEgress,
  without: { server: 'the memory provider has no network' },
  limits: { lifetimeMs: 150, commandTimeoutMs: 50 },
  runner: { describe, it },
})

it('the kit met many failures and noticed none', () => {
  expect(faults.filter(({ hits }) => hits > 0).length).toBeGreaterThan(50)
})
