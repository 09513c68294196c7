import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it, onTestFinished } from 'vitest'
import { inAnotherProcess, processesOf, providerAt, temporaryFolder, until } from './test-helper.ts'

describe('local processes', async () => {
  const root = await temporaryFolder()
  const provider = providerAt(root)

  it('a detached process outlives its starter, and another process reads its output and exit code', async () => {
    const id = await inAnotherProcess(
      root,
      `const sandbox = await provider.create()
       await sandbox.runCommand({ cmd: 'sh', args: ['-c', 'echo early; while [ ! -e go ]; do sleep 0.05; done; echo late; exit 5'], detached: true, execId: 'job' })
       console.log(sandbox.id)`,
    )
    const sandbox = await provider.get(id)
    const job = await sandbox.getProcess('job')
    expect(await job.status()).toEqual({ running: true })
    await sandbox.files.writeFile('go', '')
    expect(await job.wait()).toMatchObject({ exitCode: 5, stdout: 'early\nlate\n', timedOut: false })
    // Another process reads them after the supervisor has ended.
    expect(
      await inAnotherProcess(
        root,
        `console.log((await (await (await provider.get('${id}')).getProcess('job')).wait()).exitCode)`,
      ),
    ).toBe('5')
    await sandbox.destroy()
  })

  it('closing a shell settles, also if nothing else keeps the process running', async () => {
    const lines = `const sandbox = await provider.create()
      const shell = await sandbox.openShell()
      await shell.exec('true')
      console.log(await shell.close())
      await sandbox.destroy()`
    expect(await inAnotherProcess(root, lines)).toBe('true')
  })

  it.skipIf(process.platform !== 'linux')('of several concurrent resizes, the last one wins', async () => {
    const sandbox = await provider.create()
    const terminal = await sandbox.openTerminal({ cmd: 'sh', cols: 80, rows: 24 })
    const sizes = Array.from({ length: 12 }, (_, index) => ({ cols: 100 + index, rows: 40 }))
    await Promise.all(sizes.map((size) => terminal.resize(size)))
    await terminal.write('stty size; exit\n')
    let shown = ''
    for await (const event of terminal.output())
      if (event.type !== 'exit') shown += Buffer.from(event.data).toString()
    expect(shown).toContain('40 111')
    await sandbox.destroy()
  })

  it.skipIf(process.platform !== 'linux')('input arrives after an earlier resize', async () => {
    const sandbox = await provider.create()
    const tools = path.join(root, 'slow')
    await mkdir(tools)
    const stty = (await promisify(execFile)('sh', ['-c', 'command -v stty'])).stdout.trim()
    await writeFile(path.join(tools, 'stty'), `#!/bin/sh\nsleep 0.3\nexec ${stty} "$@"\n`, { mode: 0o755 })
    const terminal = await sandbox.openTerminal({ cmd: 'sh', cols: 80, rows: 24 })
    const PATH = process.env.PATH
    process.env.PATH = `${tools}:${PATH}`
    onTestFinished(() => {
      process.env.PATH = PATH
    })
    const resized = terminal.resize({ cols: 120, rows: 50 })
    await terminal.write(`${stty} size; exit\n`)
    let shown = ''
    for await (const event of terminal.output())
      if (event.type !== 'exit') shown += Buffer.from(event.data).toString()
    await resized
    expect(shown).toContain('50 120')
    await sandbox.destroy()
  })

  it.each([true, false])(
    'a fast program waits for its first reader, so its first output is kept (detached: %s)',
    async (detached) => {
      const sandbox = await provider.create()
      const script = 'i=0; while [ $i -lt 20000 ]; do echo "line $i"; i=$((i + 1)); done'
      const job = await sandbox.spawn({
        cmd: 'sh',
        args: ['-c', script],
        detached,
        outputBufferBytes: 64 * 1024,
      })
      // The program fills its buffer meanwhile.
      await new Promise((resolve) => setTimeout(resolve, 500))
      const { stdout, truncated } = await job.wait()
      expect(stdout.split('\n')).toHaveLength(20_001)
      expect(truncated).toBe(false)
      await sandbox.destroy()
    },
  )

  it('a detached process accepts input and signals from another process', async () => {
    const id = await inAnotherProcess(
      root,
      `const sandbox = await provider.create()
       await sandbox.spawn({ cmd: 'cat', detached: true, execId: 'cat', stdin: 'pipe' })
       await sandbox.spawn({ cmd: 'sleep', args: ['1000'], detached: true, execId: 'sleep' })
       console.log(sandbox.id)`,
    )
    const sandbox = await provider.get(id)
    const cat = await sandbox.getProcess('cat')
    await cat.writeStdin('over the socket')
    await cat.closeStdin()
    expect((await cat.wait()).stdout).toBe('over the socket')
    const sleep = await sandbox.getProcess('sleep')
    expect(await sleep.kill('SIGINT')).toBe(true)
    expect(await sleep.wait()).toMatchObject({ signal: 'SIGINT', exitCode: 130 })
    expect(await sleep.kill()).toBe(false)
    await sandbox.destroy()
  })

  it('a detached process that cannot start is an error without a record', async () => {
    const sandbox = await provider.create()
    await expect(
      sandbox.spawn({ cmd: 'no-such-program', detached: true, execId: 'x' }),
    ).rejects.toMatchObject({ code: 'command_not_found' })
    expect(await sandbox.listProcesses()).toEqual([])
    await sandbox.destroy()
  })

  it('reports an unknown exit if the supervisor was killed', async () => {
    const sandbox = await provider.create()
    await sandbox.spawn({ cmd: 'sleep', args: ['1000'], detached: true, execId: 'lost' })
    const record = path.join(root, 'sandboxes', sandbox.sandboxId, 'processes/lost/process.json')
    const { supervisor } = JSON.parse(await readFile(record, 'utf8'))
    process.kill(supervisor.pid, 'SIGKILL')
    const lost = await sandbox.getProcess('lost')
    await expect(lost.wait()).rejects.toMatchObject({ code: 'interrupted' })
    expect((await lost.status()).exit).toBeUndefined()
    await sandbox.destroy()
    expect(await processesOf(sandbox.sandboxId)).toEqual([])
  })

  it('keeps the environment of a detached process out of argument lists', async () => {
    const sandbox = await provider.create()
    await sandbox.spawn({ cmd: 'sleep', args: ['1000'], detached: true, env: { TOKEN: 'very-secret-value' } })
    const { stdout } = await sandbox.runCommand({ cmd: 'ps', args: ['-eo', 'args'] })
    expect(stdout).not.toContain('very-secret-value')
    await sandbox.destroy()
  })

  it('a timeout reaches a grandchild that has left the process group and ignores SIGTERM', async ({
    skip,
  }) => {
    if (process.platform !== 'linux') skip('finding it needs /proc, which only Linux has')
    const sandbox = await provider.create()
    const line = `setsid sh -c 'trap "" TERM; echo up > up; sleep 1000' & while [ ! -e up ]; do sleep 0.01; done; sleep 1000`
    const result = await sandbox.runCommand({ cmd: 'sh', args: ['-c', line], timeoutMs: 1500 })
    expect(result).toMatchObject({ timedOut: true, signal: 'SIGKILL' })
    expect(await sandbox.files.exists('up')).toBe(true)
    expect(await processesOf(sandbox.sandboxId)).toEqual([])
    await sandbox.destroy()
  })

  it('destroy ends programs of other processes, including daemons', async ({ skip }) => {
    if (process.platform !== 'linux') skip('finding them needs /proc, which only Linux has')
    const id = await inAnotherProcess(
      root,
      `const sandbox = await provider.create()
       await sandbox.runCommand({ cmd: 'sh', args: ['-c', '(setsid sleep 1000 &) ; (setsid sh -c "sleep 1000; true" &)'] })
       console.log(sandbox.sandboxId)
       process.exit()`,
    )
    await until('the daemons run', async () => (await processesOf(id)).length >= 2)
    expect(await provider.destroy(id)).toBe(true)
    expect(await processesOf(id)).toEqual([])
    expect(await readdir(path.join(root, 'sandboxes'))).not.toContain(id)
  })

  it('ends with the program, even if a background server holds its output open', async () => {
    const sandbox = await provider.create()
    const result = await sandbox.runCommand({ cmd: 'sh', args: ['-c', 'sleep 1000 & echo started'] })
    expect(result).toMatchObject({ exitCode: 0, stdout: 'started\n' })
    await sandbox.destroy()
  })

  it('reads all output that a program wrote just before its exit', async () => {
    const sandbox = await provider.create()
    const results = await Promise.all(
      Array.from({ length: 20 }, () =>
        sandbox.runCommand({
          cmd: 'sh',
          args: ['-c', 'head -c 150000 /dev/zero | tr "\\0" x; sleep 1000 &'],
        }),
      ),
    )
    expect(results.map((result) => result.stdout.length)).toEqual(Array(20).fill(150000))
    await sandbox.destroy()
  })

  it('passes only PATH and the locale of this process to commands (137)', async () => {
    process.env.SANDKASTEN_TEST_SECRET = 'secret'
    process.env.SANDKASTEN_TEST_SHARED = 'shared'
    try {
      const sandbox = await provider.create()
      const { stdout } = await sandbox.runCommand({ cmd: 'env' })
      const names = stdout
        .trim()
        .split('\n')
        .map((line) => line.split('=')[0])
        .sort()
      expect(names.filter((name) => !['LC_ALL', 'LC_CTYPE', 'TZ'].includes(name!))).toEqual([
        'HOME',
        'LANG',
        'PATH',
        'SANDKASTEN_PROCESS',
        'SANDKASTEN_SANDBOX',
        'TERM',
        'TMPDIR',
      ])
      await sandbox.destroy()
      const { LocalProvider } = await import('./index.ts')
      const open = await new LocalProvider({
        root,
        acceptNoIsolation: true,
        inheritEnv: ['SANDKASTEN_TEST_SHARED'],
      }).create()
      expect((await open.runCommand({ cmd: 'printenv', args: ['SANDKASTEN_TEST_SHARED'] })).stdout).toBe(
        'shared\n',
      )
      await open.destroy()
    } finally {
      delete process.env.SANDKASTEN_TEST_SECRET
      delete process.env.SANDKASTEN_TEST_SHARED
    }
  })

  it('a file that is not executable is an error with a hint', async () => {
    const sandbox = await provider.create()
    await sandbox.files.writeFile('script.sh', 'echo hi')
    await expect(sandbox.runCommand({ cmd: './script.sh' })).rejects.toMatchObject({
      code: 'permission_denied',
      hint: expect.stringContaining('chmod'),
    })
    await sandbox.destroy()
  })

  it('two concurrent detached spawns with the same execId are one process', async () => {
    const sandbox = await provider.create()
    const start = () =>
      sandbox.spawn({
        cmd: 'sh',
        args: ['-c', 'echo one >> count; sleep 1000'],
        detached: true,
        execId: 'once',
      })
    const pids = (await Promise.all([start(), start(), start()])).map(({ pid }) => pid)
    expect(new Set(pids).size).toBe(1)
    await until('it has written', () => sandbox.files.exists('count'))
    expect(await sandbox.files.readFile('count', 'utf8')).toBe('one\n')
    await sandbox.destroy()
  })
})
