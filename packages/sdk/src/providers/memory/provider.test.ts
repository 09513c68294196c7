import { describe, expect, it } from 'vitest'
import { supports } from '../../core/supports.ts'
import { SandboxError } from '../../errors.ts'
import { ManualClock, MemoryProvider } from './index.ts'

describe('scripted commands', () => {
  it('run and are recorded', async () => {
    const provider = new MemoryProvider({ seed: 'mem' })
    provider.command('git', async ({ args, stdout, stderr, env, cwd }) => {
      await stdout.write(`git ${args.join(' ')} as ${env.WHO} in ${cwd}\n`)
      await stderr.write('hint\n')
      return args[0] === 'push' ? 128 : 0
    })
    const sandbox = await provider.create({ envVars: { WHO: 'ada' } })
    expect(await sandbox.runCommand({ cmd: '/usr/bin/git', args: ['push'] })).toMatchObject({
      exitCode: 128,
      stdout: 'git push as ada in /workspace\n',
      stderr: 'hint\n',
    })
    expect(provider.calls).toMatchObject([
      { sandboxId: 'mem-1', execId: 'mem-process-1', cmd: '/usr/bin/git', args: ['push'], exitCode: 128 },
    ])
  })

  it('can be selected by a predicate, and the last added one wins', async () => {
    const provider = new MemoryProvider()
    provider.command('npm', () => 1)
    provider.command(
      ({ cmd, args }) => cmd === 'npm' && args[0] === 'test',
      () => 2,
    )
    const sandbox = await provider.create()
    expect((await sandbox.runCommand({ cmd: 'npm', args: ['ci'] })).exitCode).toBe(1)
    expect((await sandbox.runCommand({ cmd: 'npm', args: ['test'] })).exitCode).toBe(2)
  })

  it('that are not scripted fail with a hint', async () => {
    const sandbox = await new MemoryProvider().create()
    const error = await sandbox.runCommand({ cmd: 'make' }).catch((thrown) => thrown)
    expect(error).toMatchObject({
      code: 'command_not_found',
      hint: expect.stringContaining('provider.command("make"'),
    })
  })

  it('that throw end with exit code 1, and the error on stderr and in the record', async () => {
    const provider = new MemoryProvider().command('buggy', () => {
      throw new Error('a bug in the script')
    })
    const result = await (await provider.create()).runCommand({ cmd: 'buggy' })
    expect(result.exitCode).toBe(1)
    expect(result.stderr).toContain('a bug in the script')
    expect(provider.calls[0]?.error).toBeInstanceOf(Error)
  })

  it('read stdin, use files relative to their cwd, and start children', async () => {
    const provider = new MemoryProvider()
    provider.command('save', async ({ stdin, files, args }) => files.writeFile(args[0]!, await stdin.text()))
    provider.command('parent', async ({ spawnChild }) => spawnChild('child', ['x']).exited)
    provider.command('child', async ({ stdout, args }) => {
      await stdout.write(`child ${args[0]}`)
      return 5
    })
    const sandbox = await provider.create()
    await sandbox.files.mkdir('dir')
    await sandbox.runCommand({ cmd: 'save', args: ['note'], stdin: 'hello', cwd: 'dir' })
    expect(await sandbox.files.readFile('dir/note', 'utf8')).toBe('hello')
    expect(await sandbox.runCommand({ cmd: 'parent' })).toMatchObject({ exitCode: 5, stdout: 'child x' })
  })

  it('receive the signal that ends them, and can trap a signal', async () => {
    const provider = new MemoryProvider()
    let reason: unknown
    provider.command('serve', ({ signal, stdout, trap }) => {
      trap('SIGTERM', () => void stdout.write('not yet'))
      signal.addEventListener('abort', () => {
        reason = signal.reason
      })
      return new Promise(() => {})
    })
    const process = await (await provider.create()).spawn({ cmd: 'serve' })
    await new Promise((resolve) => setTimeout(resolve))
    expect(await process.kill('SIGTERM')).toBe(true)
    expect((await process.status()).running).toBe(true)
    expect(await process.kill('SIGKILL')).toBe(true)
    expect(await process.wait()).toMatchObject({ signal: 'SIGKILL', exitCode: 137 })
    expect(reason).toBe('SIGKILL')
  })
})

describe('the clock', () => {
  it('fires timers in order, and only on advance', async () => {
    const clock = new ManualClock(1000)
    const log: string[] = []
    clock.after(20, () => log.push(`b ${clock.now()}`))
    clock.after(10, () => {
      log.push(`a ${clock.now()}`)
      clock.after(5, () => log.push(`chained ${clock.now()}`))
    })
    clock.after(20, () => log.push('c, set after b'))
    clock.after(99, () => log.push('too late'))()
    await clock.advance(9)
    expect(log).toEqual([])
    await clock.advance(11)
    expect(log).toEqual(['a 1010', 'chained 1015', 'b 1020', 'c, set after b'])
    expect([clock.now(), clock.pending]).toEqual([1020, 0])
    await expect(clock.advance(-1)).rejects.toThrow(RangeError)
  })

  it('controls timeouts, durations and file times', async () => {
    const clock = new ManualClock(5000)
    const provider = new MemoryProvider({ clock })
    provider.command('slow', async ({ clock: time }) => time.sleep(60_000))
    const sandbox = await provider.create()
    await sandbox.files.writeFile('note', '')
    expect((await sandbox.files.stat('note')).mtimeMs).toBe(5000)
    const running = sandbox.runCommand({ cmd: 'slow', timeoutMs: 30_000 })
    await clock.advance(29_999)
    await clock.advance(1)
    expect(await running).toMatchObject({ timedOut: true, durationMs: 30_000, signal: 'SIGKILL' })
    const whole = sandbox.runCommand({ cmd: 'slow' })
    await clock.advance(60_000)
    expect(await whole).toMatchObject({ timedOut: false, durationMs: 60_000, exitCode: 0 })
  })

  it('controls lifetimes', async () => {
    const clock = new ManualClock()
    const provider = new MemoryProvider({ clock, seed: 'mem' })
    const sandbox = await provider.create({ lifetimeMs: 60_000 })
    await clock.advance(50_000)
    await sandbox.extendTimeout(30_000)
    await clock.advance(29_999)
    expect(await sandbox.status()).toBe('running')
    await clock.advance(1)
    expect(await sandbox.status()).toBe('stopped')
    const again = await provider.get('mem-1')
    expect((await again.info()).expiresAt).toEqual(new Date(140_000))
  })
})

describe('options', () => {
  it('make ids predictable', async () => {
    const provider = new MemoryProvider({ seed: 'box' })
    expect([(await provider.create()).id, (await provider.create()).id]).toEqual([
      'memory:box-1',
      'memory:box-2',
    ])
    const sandbox = await provider.get('box-1')
    expect(await sandbox.snapshot()).toEqual({ snapshotId: 'box-snapshot-1' })
    expect(await sandbox.getUrl(80)).toBe('http://box-1-80.memory.invalid')
  })

  it('disable abilities', async () => {
    const provider = new MemoryProvider({ capabilities: { snapshot: false, watch: false } })
    const sandbox = await provider.create()
    expect([supports(sandbox, 'snapshot'), supports(provider, 'snapshot')]).toEqual([false, false])
    await expect(sandbox.snapshot()).rejects.toMatchObject({ code: 'unsupported' })
    await expect(sandbox.files.watch('.')).rejects.toMatchObject({ code: 'unsupported' })
    await expect(provider.create({ snapshotId: 'x' })).rejects.toMatchObject({ code: 'unsupported' })
  })

  it('script a shell, which enables the ability', async () => {
    const provider = new MemoryProvider({
      async shell(line, state, io) {
        const [word, value = ''] = line.split(' ')
        if (word === 'cd') state.cwd = value
        else if (word === 'set') state.env.X = value
        else if (word === 'get') io.write(`${state.env.X ?? 'nothing'} in ${state.cwd}`)
        else if (word === 'sleep') await io.sleep(1_000_000)
        else if (word === 'exit') io.exit(Number(value))
        else return 127
        return 0
      },
    })
    const sandbox = await provider.create()
    if (!supports(sandbox, 'shell')) throw new Error('There is no shell.')
    const shell = await sandbox.openShell({ name: 'main' })
    await shell.exec('cd /tmp')
    await shell.exec('set 7')
    expect(await shell.exec('get')).toMatchObject({ output: '7 in /tmp', exitCode: 0, shellRestarted: false })
    expect(await shell.exec('sleep', { timeoutMs: 5 })).toMatchObject({ timedOut: true, cwd: '/tmp' })
    expect((await shell.exec('what')).exitCode).toBe(127)
    expect((await shell.exec('exit 3')).exitCode).toBe(3)
    expect(await (await sandbox.openShell({ name: 'main' })).exec('get')).toMatchObject({
      output: 'nothing in /tmp',
      shellRestarted: true,
    })
    expect([await shell.close(), await shell.close()]).toEqual([true, false])
    await expect(shell.exec('get')).rejects.toBeInstanceOf(SandboxError)
  })
})
