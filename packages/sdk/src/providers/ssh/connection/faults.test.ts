import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { SandboxError } from '../../../errors.ts'
import type { SshProviderOptions } from '../index.ts'
import { sshdProgram, startSshd, type TestSshd } from '../test-helper.ts'
import { FaultWire, type WireFault } from './test-kit.ts'

/** Network faults cause one error code, no command runs twice, and the same objects keep working. */
describe.skipIf(!sshdProgram)('a host behind a bad network', () => {
  let sshd: TestSshd
  let wire: FaultWire
  beforeAll(async () => {
    sshd = await startSshd()
  })
  beforeEach(async () => {
    await wire?.[Symbol.asyncDispose]()
    wire = await FaultWire.to(sshd.port)
  })
  afterAll(async () => {
    await wire[Symbol.asyncDispose]()
    await sshd[Symbol.asyncDispose]()
  })

  const provider = (more: Partial<SshProviderOptions> = {}) => {
    const known = path.join(sshd.folder, `known-${wire.port}`)
    writeFileSync(
      known,
      `[127.0.0.1]:${wire.port} ${readFileSync(sshd.hostKeyFile, 'utf8').split(' ').slice(0, 2).join(' ')}\n`,
    )
    return sshd.provider({ port: wire.port, knownHosts: known, pingMs: 1500, ...more })
  }
  const outcome = (work: Promise<unknown>): Promise<string> =>
    work.then(
      () => 'works',
      (error: SandboxError) => {
        expect(error.name).toBe('SandboxError')
        return error.code
      },
    )

  const cut: WireFault = { kind: 'cut' }
  const duplicate: WireFault = { kind: 'duplicate' }
  const corrupt: WireFault = { kind: 'corrupt' }
  const silence: WireFault = { kind: 'silence' }
  const delay: WireFault = { kind: 'delay', ms: 1000 }

  const connecting: Array<[fault: WireFault, sees: string]> = [
    [delay, 'works'],
    [cut, 'unavailable'],
    [duplicate, 'unavailable'],
    [corrupt, 'unavailable'],
    [silence, 'unavailable'],
  ]
  it.each(connecting)('while connecting: %j', async (fault, sees) => {
    const bad = provider({ connectTimeoutMs: 5000 })
    // Injects the fault during the key exchange.
    wire.rule({ to: 'client', after: 200, fault })
    expect(await outcome(bad.list())).toBe(sees)
    expect(wire.harmed).toBe(true)
    expect(await outcome(bad.list())).toBe('works')
  })

  const commands: Array<[fault: WireFault, to: 'host' | 'client', sees: string]> = [
    [delay, 'client', 'works'],
    [delay, 'host', 'works'],
    [cut, 'client', 'connection_lost'],
    [cut, 'host', 'connection_lost'],
    [duplicate, 'client', 'connection_lost'],
    [duplicate, 'host', 'connection_lost'],
    [corrupt, 'client', 'connection_lost'],
    [corrupt, 'host', 'connection_lost'],
    [silence, 'client', 'connection_lost'],
    [silence, 'host', 'connection_lost'],
  ]
  const inTheMiddle = commands.filter(([{ kind }, to]) => kind !== 'silence' || to === 'client')

  it.each(commands)('when a command is started: %j to the %s', async (fault, to, sees) => {
    const sandbox = await provider().create()
    await sandbox.files.writeFile('runs', '')
    const script = 'echo run >> runs; exit 4'
    wire.rule({ to, fault })
    const seen = await outcome(
      sandbox.spawn({ cmd: 'sh', args: ['-c', script], execId: 'job' }).then((started) => started.wait()),
    )
    expect([seen, wire.harmed]).toEqual([sees, true])
    // The same execId returns the first run, whether or not the start request arrived.
    const again = await sandbox.spawn({ cmd: 'sh', args: ['-c', script], execId: 'job' })
    expect((await again.wait()).exitCode).toBe(4)
    expect(await sandbox.files.readFile('runs', 'utf8')).toBe('run\n')
    await sandbox.destroy()
  })

  it.each(inTheMiddle)('while a command runs: %j to the %s', async (fault, to, sees) => {
    const sandbox = await provider().create()
    const script = 'echo run >> runs; while ! test -e go; do sleep 0.05; done; echo done'
    const running = sandbox.runCommand({ cmd: 'sh', args: ['-c', script] })
    const seen = outcome(running)
    await expect.poll(() => sandbox.files.exists('runs')).toBe(true)
    wire.rule({ to, fault })
    // Triggers traffic in both directions; this write may fail.
    const note = sandbox.files.writeFile('go', '').catch((error: SandboxError) => error.code)
    expect(await seen).toBe(sees)
    expect([undefined, 'connection_lost']).toContain(await note)
    expect(wire.harmed).toBe(true)
    expect(await sandbox.files.readFile('runs', 'utf8')).toBe('run\n')
    await sandbox.destroy()
  })

  it.each(inTheMiddle)('while a file is written: %j to the %s', async (fault, to, sees) => {
    const sandbox = await provider().create()
    await sandbox.files.writeFile('file', 'old')
    const whole = 'new '.repeat(100_000)
    wire.rule({ to, fault, after: to === 'host' ? 200_000 : 500 })
    expect(await outcome(sandbox.files.writeFile('file', whole))).toBe(sees)
    expect(wire.harmed).toBe(true)
    expect(await sandbox.files.readFile('file', 'utf8')).toBe(sees === 'works' ? whole : 'old')
    expect(await sandbox.files.readdir('.')).toEqual(['file'])
    await sandbox.destroy()
  })

  it('a host that goes silent: the connection is lost, and the program ran once', async () => {
    const sandbox = await provider().create()
    const script = 'echo run >> runs; while ! test -e go; do sleep 0.05; done; exit 4'
    const process = await sandbox.spawn({ cmd: 'sh', args: ['-c', script], execId: 'job' })
    const waiting = outcome(process.wait())
    await expect.poll(() => sandbox.files.exists('runs')).toBe(true)
    wire.rule({ to: 'client', fault: silence })
    expect(await waiting).toBe('connection_lost')
    // The program continues, and the client finds it again.
    expect((await process.status()).running).toBe(true)
    await sandbox.files.writeFile('go', '')
    expect((await (await sandbox.getProcess('job')).wait()).exitCode).toBe(4)
    expect(await sandbox.files.readFile('runs', 'utf8')).toBe('run\n')
    await sandbox.destroy()
  })

  it('parses a response that arrives in one piece together with its end', async () => {
    const sandbox = await provider().create()
    wire.gatherMs = 300
    expect((await sandbox.info()).status).toBe('running')
    expect((await sandbox.runCommand({ cmd: 'echo', args: ['whole'] })).stdout).toBe('whole\n')
    await sandbox.stop()
    expect((await sandbox.info()).status).toBe('stopped')
    await expect(sandbox.runCommand({ cmd: 'true' })).rejects.toMatchObject({ code: 'not_running' })
    expect(await sandbox.destroy()).toBe(true)
  })
})
