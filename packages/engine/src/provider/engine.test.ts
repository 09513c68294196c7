import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import type { CreateSandboxOpts } from '@sandkasten/sdk'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { reasonToSkip } from '../isolators/oci/testing/bench.ts'
import { EngineProvider } from './engine-provider.ts'
import { runnersOf } from './test-helper.ts'

const root = await mkdtemp(path.join(tmpdir(), 'sandkasten-engine-'))
afterAll(() => rm(root, { recursive: true, force: true }))
const skipped = await reasonToSkip()

/** Runs JavaScript in another process, with `provider` over the same root. Resolves to its output. */
async function inAnotherProcess(code: string): Promise<string> {
  const module = JSON.stringify(new URL('./engine-provider.ts', import.meta.url).href)
  const script = `const { EngineProvider } = await import(${module})
    const provider = new EngineProvider({ isolator: 'oci', root: ${JSON.stringify(root)} })
    ${code}`
  const args = ['--conditions=sandkasten-source', '--input-type=module', '-e', script]
  return (await promisify(execFile)(process.execPath, args)).stdout.trim()
}

describe('EngineProvider on oci', () => {
  beforeEach(({ skip }) => {
    if (skipped) skip(skipped)
  })

  it('a new process finds the sandbox of an old one, its shell and its running command', async () => {
    const id = await inAnotherProcess(`
      const sandbox = await provider.create({ envVars: { GIVEN: 'at create' } })
      const shell = await sandbox.openShell({ name: 'work' })
      await shell.exec('cd /tmp; NAME=kept; greet() { echo "hello $1"; }; (while [ ! -e /tmp/go ]; do sleep 0.02; done; echo late > /tmp/late) &')
      await sandbox.spawn({ cmd: 'sh', args: ['-c', 'echo early; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo late; exit 6'], execId: 'job' })
      console.log(sandbox.id)`)
    const sandbox = await new EngineProvider({ isolator: 'oci', root }).get(id)
    try {
      const shell = await sandbox.openShell({ name: 'work' })
      expect(shell.cwd).toBe('/tmp')
      expect(await shell.exec('echo "$NAME $GIVEN"; greet you; pwd')).toMatchObject({
        output: 'kept at create\nhello you\n/tmp\n',
        shellRestarted: false,
      })
      const job = await sandbox.getProcess('job')
      expect(await job.status()).toEqual({ running: true })
      await sandbox.files.writeFile('/tmp/go', '')
      expect(await job.wait()).toMatchObject({ exitCode: 6, stdout: 'early\nlate\n' })
      expect((await shell.exec('wait; cat late')).output).toBe('late\n')
    } finally {
      await sandbox.destroy()
    }
  })

  it('lists processes while commands of another provider end and are forgotten', async () => {
    const [provider, other] = [1, 2].map(() => new EngineProvider({ isolator: 'oci', root }))
    const sandbox = await provider!.create()
    const same = await other!.get(sandbox.id)
    let isDone = false
    const commands = (async () => {
      for (let count = 0; count < 150; count += 1) await sandbox.runCommand({ cmd: 'true' })
    })().finally(() => {
      isDone = true
    })
    while (!isDone) await same.listProcesses()
    await commands
    await sandbox.destroy()
    await Promise.all([provider!.close(), other!.close()])
  })

  it.each(['oci', 'process'] as const)(
    'close() leaves no links of locks in its folder, also if the sandbox is used afterwards (%s)',
    async (isolator) => {
      const own = path.join(root, `closing-${isolator}`)
      // Images contain foreign files with such names.
      const locks = async () =>
        (await readdir(own, { recursive: true })).filter((name) => /^(?!images).*\block(\.|$)/.test(name))
      const provider = new EngineProvider({ isolator, root: own })
      const sandbox = await provider.create({ lifetimeMs: 60_000 })
      await sandbox.extendTimeout(90_000)
      // Without this the test would also pass if the engine took no locks at all.
      expect(await locks()).toEqual([expect.stringMatching(/^lock\.[a-z2-7]{8}$/)])
      await provider.close()
      expect(await locks()).toEqual([])
      await sandbox.extendTimeout(120_000)
      expect(await locks()).toEqual([])
      await sandbox.destroy()
      await provider.close()
      expect(await locks()).toEqual([])
    },
  )

  it('reports out of memory from the kernel’s count, and not after an ordinary kill', async () => {
    const provider = new EngineProvider({ isolator: 'oci', root })
    const sandbox = await provider.create({ resources: { memoryMb: 64 } })
    try {
      const bomb = await sandbox.runCommand({
        cmd: 'perl',
        args: ['-e', 'my @a; push @a, "x" x 1048576 for 1..512'],
      })
      expect(bomb).toMatchObject({ signal: 'SIGKILL', oom: true, timedOut: false })
      const killed = await sandbox.runCommand({ cmd: 'sh', args: ['-c', 'kill -9 $$'] })
      expect(killed).toMatchObject({ signal: 'SIGKILL' })
      expect(killed.oom).toBeUndefined()
      expect((await sandbox.runCommand({ cmd: 'echo', args: ['still here'] })).stdout).toBe('still here\n')
    } finally {
      await sandbox.destroy()
    }
  })

  it('the group that marks a command has a name, and the command cannot leave it', async () => {
    const provider = new EngineProvider({ isolator: 'oci', root })
    const sandbox = await provider.create()
    const sh = (line: string) => sandbox.runCommand({ cmd: 'sh', args: ['-c', line] })
    try {
      const { exitCode, stdout, stderr } = await sh('id -G; groups; id -gn')
      expect([exitCode, stderr]).toEqual([0, ''])
      expect(stdout).toMatch(/^1000 (4\d{4})\nsandbox cmd\1\nsandbox\n$/)
      expect((await sh('setpriv --clear-groups id -G')).exitCode).not.toBe(0)
    } finally {
      await sandbox.destroy()
    }
  })

  it('gives its user the requested name and home, also in forks and after a restart', async () => {
    const provider = new EngineProvider({ isolator: 'oci', root })
    const sandbox = await provider.create({ providerOptions: { account: 'ada' } })
    const look = { cmd: 'sh', args: ['-c', 'whoami; pwd; echo "$HOME"; stat -c %U:%G ~; touch ~/mine; ls ~'] }
    const seen = 'ada\n/home/ada\n/home/ada\nada:ada\nmine\n'
    const [copy] = await sandbox.fork()
    try {
      expect((await sandbox.runCommand(look)).stdout).toBe(seen)
      await sandbox.stop()
      const again = await provider.get(sandbox.sandboxId, { resume: true })
      expect((await again.runCommand(look)).stdout).toBe(seen)
      expect((await (copy as typeof sandbox).runCommand(look)).stdout).toBe(seen)
      // A disk whose user has another home keeps its account.
      const plain = await provider.create({})
      const { snapshotId } = await plain.snapshot()
      const other = await provider.create({ snapshotId, providerOptions: { account: 'ada' } })
      expect((await other.runCommand({ cmd: 'sh', args: ['-c', 'whoami; pwd'] })).stdout).toBe(
        'sandbox\n/workspace\n',
      )
      for (const one of [plain, other]) await one.destroy()
      await provider.deleteSnapshot(snapshotId)
    } finally {
      for (const one of [sandbox, copy as typeof sandbox]) await one.destroy()
    }
  })

  it('kill() ends programs that endlessly fork and leave their session and parent', async () => {
    const provider = new EngineProvider({ isolator: 'oci', root })
    const sandbox = await provider.create({ providerOptions: { pids: 256 } })
    // Eight chains of processes. In each chain, every process forks the next one and exits.
    const storm =
      'use POSIX; $| = 1; for (1..8) { fork or last } while (1) { print "."; fork and exit; setsid }'
    const count = async () =>
      Number(
        (
          await sandbox.runCommand({
            cmd: 'sh',
            args: ['-c', 'grep -lx perl /proc/[0-9]*/comm 2>/dev/null | wc -l'],
          })
        ).stdout,
      )
    try {
      const bystander = await sandbox.spawn({ cmd: 'sleep', args: ['1000'] })
      // The first program keeps running, so that there is a process to kill.
      const line = `perl -e '${storm}' & exec sleep 1000`
      const process = await sandbox.spawn({ cmd: 'sh', args: ['-c', line] })
      let generations = 0
      for await (const event of process.output()) {
        if (event.type === 'stdout') generations += event.data.byteLength
        if (generations > 200) break
      }
      expect(await process.kill('SIGKILL')).toBe(true)
      await process.wait()
      await expect.poll(count, { timeout: 20_000 }).toBe(0)
      expect(await count()).toBe(0)
      expect(await bystander.status()).toEqual({ running: true })
    } finally {
      await sandbox.destroy()
    }
  })

  it('a killed runner stops its sandbox, which starts again with its disk', async () => {
    const provider = new EngineProvider({ isolator: 'oci', root })
    const sandbox = await provider.create()
    try {
      await sandbox.files.writeFile('note', 'kept')
      for (const pid of runnersOf(sandbox.sandboxId)) process.kill(pid, 'SIGKILL')
      await expect.poll(() => sandbox.status(), { timeout: 10_000 }).toBe('stopped')
      expect((await sandbox.info()).rawStatus).toBe('crashed')
      await expect(sandbox.runCommand({ cmd: 'true' })).rejects.toMatchObject({ code: 'not_running' })
      await sandbox.start()
      expect((await sandbox.info()).rawStatus).toBeUndefined()
      expect(await sandbox.files.readFile('note', 'utf8')).toBe('kept')
    } finally {
      await sandbox.destroy()
    }
  })

  it.each([
    [{ image: 'ubuntu' }, 'not_found', 'image'],
    [{ image: '../ubuntu' }, 'invalid_argument', 'image'],
    [{ image: '/no/such/rootfs' }, 'invalid_argument', 'rootfs'],
    [{ resources: { diskMb: 1 } }, 'invalid_argument', 'disk'],
    [{ providerOptions: { mount: [] } }, 'invalid_argument', 'mount'],
    [{ providerOptions: { network: 'open' } }, 'invalid_argument', 'network'],
    [{ network: 'bridge' }, 'invalid_argument', 'bridge'],
    [{ providerOptions: { mounts: [{ source: 'data', target: '/data' }] } }, 'invalid_argument', 'source'],
    [{ providerOptions: { account: 'root' } }, 'invalid_argument', 'root'],
    [{ providerOptions: { account: 'a:0:0' } }, 'invalid_argument', 'account'],
    [{ image: '/srv', providerOptions: { account: 'user' } }, 'invalid_argument', 'account'],
    [{ snapshotId: 'x' }, 'not_found', 'snapshot'],
  ])('rejects %j and leaves nothing behind', async (options, code, word) => {
    const provider = new EngineProvider({ isolator: 'oci', root })
    await expect(provider.create(options as CreateSandboxOpts)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(word),
    })
    expect(await provider.list()).toEqual([])
  })
})

describe('the choice of an isolator', () => {
  it('is explained', () => {
    const { decision, isolation } = new EngineProvider({ isolator: 'process', root })
    expect(decision).toMatchObject({ isolator: 'process', reason: expect.stringContaining('not isolate') })
    expect(isolation).toBe('none')
    if (!skipped) expect(new EngineProvider({ root }).decision.isolator).toBe('oci')
  })

  it('never falls back to no isolation unless the options allow it', () => {
    const none = { root, oci: { runtime: 'no-such-runtime' }, docker: { socketPath: '/no/such/docker.sock' } }
    expect(() => new EngineProvider(none)).toThrow(
      expect.objectContaining({ code: 'unsupported', hint: expect.stringContaining('process') }),
    )
    expect(new EngineProvider({ ...none, acceptNoIsolation: true }).decision.isolator).toBe('process')
    expect(() => new EngineProvider({ isolator: 'dokcer' as never })).toThrow(
      expect.objectContaining({ code: 'invalid_argument' }),
    )
  })

  it.each([
    [{ isolater: 'oci' }, 'isolator'],
    [{ defaults: { memoryMib: 512 } }, 'memoryMb'],
    [{ defaults: { disk: 1 } }, 'diskMb'],
  ])('refuses the unknown option in %o', (options, meant) => {
    expect(() => new EngineProvider(options as never)).toThrow(
      expect.objectContaining({ code: 'invalid_argument', hint: `Did you mean \`${meant}\`?` }),
    )
  })
})
