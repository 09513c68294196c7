/** Tests what our runner changes on an SSH host, and the fallback. The contract is in conformance-runner.test.ts. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { buildRunner } from '../../../../../engine/src/runner/build-runner.ts'
import type { ProcessEvent } from '../../../spec/index.ts'
import { leftoversOf, sshdProgram, startSshd, type TestSshd } from '../test-helper.ts'

const asRoot = process.getuid?.() === 0
const sh = (line: string) => ({ cmd: 'sh', args: ['-c', line] })
const textOf = (event: ProcessEvent | undefined) =>
  event && event.type !== 'exit' ? Buffer.from(event.data).toString() : undefined

describe.skipIf(!sshdProgram)('a host with our runner', () => {
  let sshd: TestSshd
  let runner: string
  let root: string
  beforeAll(async () => {
    runner = await buildRunner()
    sshd = await startSshd({ ordinary: asRoot })
    root = path.join(sshd.home, 'sandkasten')
  })
  afterAll(() => sshd[Symbol.asyncDispose]())
  const provider = () => sshd.provider({ runner })
  const runnerOf = (sandboxId: string) =>
    Number(readFileSync(path.join(root, 'sandboxes', sandboxId, 'run/runner'), 'utf8').split(' ')[0])
  const processesOf = (sandboxId: string) =>
    leftoversOf(root)(sandboxId).filter((line) => line.startsWith('/proc'))

  it('receives the runner once, supervises with it, and has native terminals', async () => {
    const host = provider()
    expect(await host.runner()).toEqual({ used: true })
    const sandbox = await host.create({ envVars: { SECRET: 'sk-secret' } })
    const { stdout } = await sandbox.runCommand(sh('echo $PPID; umask; ps -ww -o args -u "$(id -u)"'))
    expect(Number(stdout.split('\n')[0])).toBe(runnerOf(sandbox.sandboxId))
    expect(stdout).not.toContain('supervise')
    // The account's own umask, as after a login, and no secret in the process list.
    expect(stdout.split('\n')[1]).toMatch(/^0?022$/)
    expect(stdout).not.toContain('sk-secret')
    const terminal = await sandbox.openTerminal({ ...sh('stty size; read x; stty size'), cols: 90, rows: 33 })
    const output = terminal.output()[Symbol.asyncIterator]()
    expect(textOf((await output.next()).value)).toContain('33 90')
    await terminal.resize({ cols: 101, rows: 44 })
    await terminal.write('x\n')
    let seen = ''
    for (let next = await output.next(); !next.done; next = await output.next())
      seen += textOf(next.value) ?? ''
    expect(seen).toContain('44 101')
    // Another client with the same binary shares the file.
    await (await provider().get(sandbox.id)).runCommand({ cmd: 'true' })
    expect(
      execFileSync('ls', [path.join(root, 'bin')], { encoding: 'utf8' }).match(/^runner-/gm),
    ).toHaveLength(1)
    await sandbox.destroy()
    expect(leftoversOf(root)(sandbox.sandboxId)).toEqual([])
  })

  it('runs one runner for each sandbox: a program that ends in one continues in the other', async () => {
    const host = provider()
    const [one, two] = [await host.create(), await host.create()]
    expect(runnerOf(one.sandboxId)).not.toBe(runnerOf(two.sandboxId))
    const long = sh('setsid sleep 1000 & echo begun; wait')
    const [a, b] = [await one.spawn({ ...long, execId: 'p' }), await two.spawn({ ...long, execId: 'p' })]
    for (const process of [a, b]) await process.output()[Symbol.asyncIterator]().next()
    await a.kill('SIGKILL')
    expect((await a.wait()).signal).toBe('SIGKILL')
    expect((await b.status()).running).toBe(true)
    await one.stop()
    expect(processesOf(one.sandboxId)).toEqual([])
    expect((await b.status()).running).toBe(true)
    await one.destroy()
    expect((await two.runCommand(sh('echo still here'))).stdout).toBe('still here\n')
    await two.destroy()
    expect(leftoversOf(root)(two.sandboxId)).toEqual([])
  })

  it('loses the connection during a stream: the program continues, and its output resumes', async () => {
    const sandbox = await provider().create()
    const script =
      'echo run >> runs; echo before; while ! test -e go; do sleep 0.05; done; echo after; exit 4'
    const process = await sandbox.spawn({ ...sh(script), execId: 'job' })
    const reader = process.output()[Symbol.asyncIterator]()
    const first = (await reader.next()).value as ProcessEvent
    expect(textOf(first)).toBe('before\n')
    const shell = await sandbox.openShell({ name: 'main' })
    await shell.exec('KEPT=yes')
    const running = shell.exec('echo begun; while ! test -e go; do sleep 0.05; done; echo done', {
      execId: 'the command',
      onOutput: (text) => text.includes('begun') && begun.resolve(),
    })
    const begun = Promise.withResolvers<void>()
    const cutOff = [reader.next(), running].map((one) => one.catch((error: { code: string }) => error.code))
    await begun.promise
    expect(sshd.cut()).toBeGreaterThan(0)
    expect(await Promise.all(cutOff)).toEqual(['connection_lost', 'connection_lost'])

    // First another client, then the same objects.
    const other = await provider().get(sandbox.id)
    expect((await (await other.getProcess('job')).status()).running).toBe(true)
    await other.files.writeFile('go', '')
    const events: unknown[] = []
    for await (const event of process.output({ after: first.seq }))
      events.push(event.type === 'exit' ? event.exitCode : textOf(event))
    expect(events).toEqual(['after\n', 4])
    const same = await other.openShell({ name: 'main' })
    expect((await same.attach!('the command')).output).toBe('begun\ndone\n')
    expect((await shell.exec('echo $KEPT')).output).toBe('yes\n')
    expect(await sandbox.files.readFile('runs', 'utf8')).toBe('run\n')
    await sandbox.destroy()
  })

  it('keeps all output for later readers while no client is connected, until a stop', async () => {
    const first = provider()
    const sandbox = await first.create()
    await sandbox.spawn({
      ...sh('for i in 1 2 3; do echo line $i; done; exit 5'),
      execId: 'job',
      detached: true,
    })
    await first.close()
    const later = await provider().get(sandbox.id)
    const process = await later.getProcess('job')
    expect((await process.wait()).exitCode).toBe(5)
    let text = ''
    for await (const event of process.output()) text += textOf(event) ?? ''
    expect(text).toBe('line 1\nline 2\nline 3\n')
    await later.stop()
    await later.start()
    await expect(later.getProcess('job')).rejects.toMatchObject({ code: 'not_found' })
    await later.destroy()
  })

  it('stops a sandbox whose runner is killed, ends its programs, and can start it again', async () => {
    const host = provider()
    const sandbox = await host.create()
    await sandbox.files.writeFile('kept', 'yes')
    const job = await sandbox.spawn({ ...sh('setsid sleep 1000 & echo begun; wait'), execId: 'job' })
    await job.output()[Symbol.asyncIterator]().next()
    const waiting = job.wait().catch((error) => error.code)
    const left = processesOf(sandbox.sandboxId)
    expect(left.length).toBeGreaterThan(1)
    process.kill(runnerOf(sandbox.sandboxId), 'SIGKILL')
    expect(['connection_lost', 'not_running']).toContain(await waiting)
    expect(await sandbox.info()).toMatchObject({ status: 'stopped', rawStatus: 'crashed' })
    await expect(sandbox.runCommand({ cmd: 'true' })).rejects.toMatchObject({ code: 'not_running' })
    await expect(job.status()).rejects.toMatchObject({ code: 'not_running' })
    expect(processesOf(sandbox.sandboxId)).toEqual([])
    await sandbox.start()
    expect((await sandbox.info()).rawStatus).toBeUndefined()
    expect((await sandbox.runCommand({ cmd: 'cat', args: ['kept'] })).stdout).toBe('yes')
    await sandbox.destroy()
  })

  it('serves two clients at once: both see a stop, also during a read', async () => {
    const [one, two] = [provider(), provider()]
    const sandbox = await one.create()
    const other = await two.get(sandbox.id)
    const job = await other.spawn({ cmd: 'sleep', args: ['1000'], detached: true })
    const waiting = job.wait().then(
      ({ signal }) => signal,
      (error) => error.code,
    )
    await sandbox.stop()
    expect(['SIGTERM', 'SIGKILL', 'not_running']).toContain(await waiting)
    await expect(other.runCommand({ cmd: 'true' })).rejects.toMatchObject({ code: 'not_running' })
    await sandbox.start()
    await expect(other.runCommand({ cmd: 'true' })).rejects.toMatchObject({ code: 'interrupted' })
    await expect(job.status()).rejects.toMatchObject({ code: 'interrupted' })
    expect(await two.destroy(sandbox.id)).toBe(true)
    await expect(sandbox.runCommand({ cmd: 'true' })).rejects.toMatchObject({ code: 'not_found' })
  })

  it('ends an expired sandbox without a connected client', async () => {
    const host = provider()
    const sandbox = await host.create({ lifetimeMs: 2000 })
    const pid = runnerOf(sandbox.sandboxId)
    await sandbox.spawn({ ...sh('env -i setsid sleep 1000 & trap "" TERM; sleep 1000'), detached: true })
    await host.close()
    await expect.poll(() => existsSync(`/proc/${pid}`)).toBe(false)
    await expect.poll(() => processesOf(sandbox.sandboxId)).toEqual([])
    expect((await provider().list()).find(({ id }) => id === sandbox.id)?.status).toBe('stopped')
    await provider().destroy(sandbox.id)
  })

  it('serves a client without the binary, which starts sandboxes without a runner', async () => {
    const sandbox = await provider().create()
    const job = await sandbox.spawn({ ...sh('echo one; cat'), execId: 'job', stdin: 'pipe' })
    const without = sshd.provider()
    expect(await without.runner()).toEqual({ used: false, why: expect.any(String) })
    const same = await without.get(sandbox.id)
    expect((await same.listProcesses()).map(({ execId }) => execId)).toEqual(['job'])
    expect((await same.runCommand(sh('echo $PPID'))).stdout).toBe(`${runnerOf(sandbox.sandboxId)}\n`)
    await job.closeStdin()
    expect((await (await same.getProcess('job')).wait()).exitCode).toBe(0)
    await same.stop()
    await same.start()
    expect((await same.runCommand(sh('echo by the script'))).stdout).toBe('by the script\n')
    const back = await provider().get(sandbox.id)
    expect((await back.runCommand(sh('echo by the script'))).stdout).toBe('by the script\n')
    await back.destroy()
  })

  it('does not keep an idle process alive while a connection is open', async () => {
    const module = new URL('../index.ts', import.meta.url).href
    const code = `const { SshProvider } = await import(${JSON.stringify(module)})
      const provider = new SshProvider(${JSON.stringify(sshd.options({ runner }))})
      const sandbox = await provider.create({ name: 'left open' })
      console.log((await sandbox.runCommand({ cmd: 'echo', args: ['ran'] })).stdout)
      await (await sandbox.openShell()).exec('true')`
    const child = spawn(
      process.execPath,
      ['--conditions=sandkasten-source', '--input-type=module', '-e', code],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    let printed = ''
    child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      printed += text
    })
    const [status] = await once(child, 'exit')
    expect([status, printed.trim()]).toEqual([0, 'ran'])
    await (await provider().getOrCreate({ name: 'left open' })).destroy()
  })

  it('needs one session for each sandbox, regardless of the number of programs', async () => {
    const before = sshd.connections()
    const sandbox = await provider().create()
    const results = await Promise.all(
      Array.from({ length: 40 }, (_, index) => sandbox.runCommand(sh(`sleep 0.1; echo ${index}`))),
    )
    expect(results.map(({ stdout }) => stdout.trim())).toEqual(results.map((_, index) => String(index)))
    expect(sshd.connections() - before).toBe(1)
    await sandbox.destroy()
  })

  describe('falls back to the script', () => {
    const warnings = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    afterAll(() => warnings.mockRestore())
    /** Checks that everything works without the runner, with one warning. */
    async function fallsBack(options: { runner: string; root?: string }, why: RegExp): Promise<void> {
      warnings.mockClear()
      const host = sshd.provider(options)
      const sandbox = await host.create()
      expect((await sandbox.runCommand(sh('echo ran'))).stdout).toBe('ran\n')
      expect((await (await sandbox.openShell()).exec('echo in a shell')).output).toBe('in a shell\n')
      expect(await host.runner()).toEqual({ used: false, why: expect.stringMatching(why) })
      const again = await host.create()
      await Promise.all([sandbox, again].map((one) => one.destroy()))
      expect(warnings.mock.calls.map(([text]) => String(text))).toEqual([expect.stringMatching(why)])
    }
    const changed = (name: string, change: (binary: Buffer) => Buffer) => {
      const file = path.join(sshd.folder, name)
      writeFileSync(file, change(readFileSync(runner)))
      return file
    }

    it('if the binary is for another processor', async () => {
      const foreign = changed('foreign', (binary) => {
        binary.writeUInt16LE(binary.readUInt16LE(18) === 62 ? 183 : 62, 18)
        return binary
      })
      await fallsBack({ runner: foreign }, /the binary is for \w+, and the host is/)
      await fallsBack(
        { runner: changed('text', () => Buffer.from('#!/bin/sh\n')) },
        /the binary is for another system/,
      )
    })

    it('if the binary is damaged', async () => {
      await fallsBack(
        { runner: changed('half', (binary) => binary.subarray(0, 100)) },
        /the host cannot run it/,
      )
    })

    it('if the runner does not serve', async () => {
      // A program that runs on the host, prints nothing, and ends.
      const silent = changed('silent', () => readFileSync('/bin/true'))
      await fallsBack({ runner: silent }, /it did not start there/)
    })

    it('if its folder is mounted noexec', async (context) => {
      const folder = path.join(sshd.home, 'noexec')
      mkdirSync(folder)
      try {
        execFileSync('mount', ['-t', 'tmpfs', '-o', 'noexec,mode=0777', 'none', folder], { stdio: 'ignore' })
      } catch {
        return context.skip('mounting needs root')
      }
      try {
        await fallsBack({ runner, root: path.join(folder, 'root') }, /the host cannot run it.*[Pp]ermission/)
      } finally {
        execFileSync('umount', ['-l', folder])
      }
    })

    it('but fails if the named binary does not exist', async () => {
      await expect(sshd.provider({ runner: '/no/such/runner' }).create()).rejects.toMatchObject({
        code: 'invalid_argument',
        hint: expect.stringContaining('SANDKASTEN_RUNNER'),
      })
    })
  })
})
