import { describe, expect, it } from 'vitest'
import { ManualClock, MemoryProvider } from './index.ts'

function printer(options: ConstructorParameters<typeof MemoryProvider>[0] = {}): MemoryProvider {
  return new MemoryProvider(options).command('lines', async ({ stdout }) => {
    for (const line of ['one\n', 'two\n', 'three\n']) await stdout.write(line)
  })
}

describe('faults', () => {
  it('fail one call with a code, and count the hits', async () => {
    const provider = new MemoryProvider()
    const fault = provider.fault({ on: 'create', error: 'quota_exceeded' })
    await expect(provider.create()).rejects.toMatchObject({
      code: 'quota_exceeded',
      details: { fault: 'create' },
    })
    await provider.create()
    expect([fault.hits, (await provider.list()).length]).toEqual([1, 1])
  })

  it('skip some calls, and repeat as often as requested', async () => {
    const provider = printer()
    const sandbox = await provider.create()
    provider.fault({ on: 'spawn', error: 'unavailable', after: 1, times: 2 })
    const outcomes = []
    for (let call = 0; call < 4; call += 1) {
      outcomes.push(
        await sandbox.runCommand({ cmd: 'lines' }).then(
          () => 'ran',
          (error) => error.code,
        ),
      )
    }
    expect(outcomes).toEqual(['ran', 'unavailable', 'unavailable', 'ran'])
  })

  it('fail calls of one sandbox with the caller’s error, until removed', async () => {
    const provider = new MemoryProvider({ seed: 'mem' })
    const [first, second] = [await provider.create(), await provider.create()]
    const mine = new Error('mine')
    const fault = provider.fault({ on: 'stat', sandboxId: 'mem-2', error: mine, times: Infinity })
    expect(await first.files.exists('.')).toBe(true)
    await expect(second.files.stat('.')).rejects.toBe(mine)
    fault.remove()
    expect(await second.files.exists('.')).toBe(true)
  })

  it('fill the disk during a write, which keeps the old content', async () => {
    const provider = new MemoryProvider()
    const { files } = await provider.create()
    await files.writeFile('note', 'old')
    let sent = 0
    async function* source() {
      for (; sent < 10; sent += 1) yield new Uint8Array(1000)
    }
    provider.fault({ on: 'writeFile', error: 'disk_full', afterBytes: 5000 })
    await expect(files.writeFile('note', source())).rejects.toMatchObject({ code: 'disk_full' })
    expect([sent, await files.readFile('note', 'utf8')]).toEqual([5, 'old'])
  })

  it('break off a read, with or without an error', async () => {
    const provider = new MemoryProvider()
    const { files } = await provider.create()
    await files.writeFile('note', '0123456789')
    provider.fault({ on: 'readStream', error: 'connection_lost', afterBytes: 4 })
    await expect(files.readFile('note')).rejects.toMatchObject({ code: 'connection_lost', retryable: true })
    provider.fault({ on: 'readStream', cut: true, afterBytes: 4 })
    expect(await files.readFile('note', 'utf8')).toBe('0123')
    expect(await files.readFile('note', 'utf8')).toBe('0123456789')
  })

  it('break off the output of a process, and a re-attached reader loses nothing', async () => {
    const provider = printer()
    const sandbox = await provider.create()
    provider.fault({ on: 'output', cut: true, afterBytes: 8 })
    const process = await sandbox.spawn({ cmd: 'lines' })
    let text = ''
    let last = 0
    for await (const event of process.output()) {
      expect(event.type).toBe('stdout')
      if (event.type === 'stdout') text += new TextDecoder().decode(event.data)
      last = event.seq
    }
    expect([text, last]).toEqual(['one\ntwo\n', 2])
    const again = await sandbox.getProcess(process.execId)
    for await (const event of again.output({ after: last }))
      if (event.type === 'stdout') text += new TextDecoder().decode(event.data)
    expect(text).toBe('one\ntwo\nthree\n')
  })

  it('make runCommand fail with connection_lost when its output breaks off', async () => {
    const provider = printer()
    const sandbox = await provider.create()
    provider.fault({ on: 'output', cut: true })
    await expect(sandbox.runCommand({ cmd: 'lines' })).rejects.toMatchObject({ code: 'connection_lost' })
  })

  it('delay calls on the provider’s clock, and a delayed call can be cancelled', async () => {
    const clock = new ManualClock()
    const provider = new MemoryProvider({ clock })
    provider.fault({ on: 'create', delayMs: 5000, times: 2 })
    let done = false
    const creating = provider.create().then(() => {
      done = true
    })
    await clock.advance(4999)
    expect(done).toBe(false)
    await clock.advance(1)
    await creating
    const controller = new AbortController()
    const cancelled = provider.create({ signal: controller.signal })
    controller.abort()
    await expect(cancelled).rejects.toMatchObject({ code: 'aborted' })
    expect(await provider.list()).toHaveLength(1)
  })

  it.each([
    'get',
    'find',
    'list',
    'destroy',
    'health',
    'info',
    'listFiles',
    'mkdir',
    'rename',
    'rm',
    'chmod',
    'symlink',
    'readlink',
    'watch',
    'appendFile',
    'kill',
    'processStatus',
    'writeStdin',
    'closeStdin',
    'getProcess',
    'listProcesses',
    'getEndpoint',
    'stop',
    'start',
    'pause',
    'resume',
    'snapshot',
    'extendTimeout',
    'setNetwork',
    'listSnapshots',
    'deleteSnapshot',
  ] as const)('apply to %s', async (on) => {
    const provider = new MemoryProvider().command('wait', () => new Promise(() => {}))
    const sandbox = await provider.create({ name: 'named' })
    const process = await sandbox.spawn({ cmd: 'wait', stdin: 'pipe' })
    const calls: Record<typeof on, () => Promise<unknown>> = {
      get: () => provider.get(sandbox.id),
      find: () => provider.getOrCreate({ name: 'named' }),
      list: () => provider.list(),
      destroy: () => sandbox.destroy(),
      health: () => provider.healthCheck(),
      info: () => sandbox.info(),
      listFiles: () => sandbox.files.list(),
      mkdir: () => sandbox.files.mkdir('a'),
      rename: () => sandbox.files.rename('a', 'b'),
      rm: () => sandbox.files.rm('a'),
      chmod: () => sandbox.files.chmod('a', 0o600),
      symlink: () => sandbox.files.symlink('a', 'b'),
      readlink: () => sandbox.files.readlink('a'),
      watch: () => sandbox.files.watch('.'),
      appendFile: () => sandbox.files.appendFile('a', 'b'),
      kill: () => process.kill(),
      processStatus: () => process.status(),
      writeStdin: () => process.writeStdin('x'),
      closeStdin: () => process.closeStdin(),
      getProcess: () => sandbox.getProcess(process.execId),
      listProcesses: () => sandbox.listProcesses(),
      getEndpoint: () => sandbox.getEndpoint(80),
      stop: () => sandbox.stop(),
      start: () => sandbox.start(),
      pause: () => sandbox.pause(),
      resume: () => sandbox.resume(),
      snapshot: () => sandbox.snapshot(),
      extendTimeout: () => sandbox.extendTimeout(1000),
      setNetwork: () => sandbox.setNetwork('none'),
      listSnapshots: () => provider.listSnapshots(),
      deleteSnapshot: () => provider.deleteSnapshot('x'),
    }
    provider.fault({ on, error: 'rate_limited' })
    await expect(calls[on]()).rejects.toMatchObject({ code: 'rate_limited' })
  })

  it('return a failed fork as an error in its place', async () => {
    const provider = new MemoryProvider()
    const sandbox = await provider.create()
    provider.fault({ on: 'fork', error: 'quota_exceeded', after: 1 })
    const forks = await sandbox.fork({ count: 3 })
    expect(
      forks.map((fork) => (fork instanceof Error ? (fork as Error & { code?: string }).code : 'made')),
    ).toEqual(['made', 'quota_exceeded', 'made'])
  })
})
