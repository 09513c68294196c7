import { existsSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SandboxHandle } from '../../index.ts'
import type { SshCapabilities } from './index.ts'
import { processesWith, sshdProgram, startSshd, type TestSshd } from './test-helper.ts'

/** Programs that the mark in the environment does not find. A unique argument identifies each one. */
const programs: Array<[name: string, line: (word: string) => { cmd: string; args: string[] }]> = [
  ['without an environment', (word) => ({ cmd: 'env', args: ['-i', 'sleep', word] })],
  [
    'with a child without an environment, in another process group',
    (word) => ({ cmd: 'bash', args: ['-c', `set -m; env -i sleep ${word} & wait`] }),
  ],
  [
    'with a child without an environment, in another session',
    (word) => ({ cmd: 'sh', args: ['-c', `env -i setsid sleep ${word} & wait`] }),
  ],
  [
    'that wrote its title over its environment',
    (word) => ({ cmd: 'perl', args: ['-e', `$0 = "${word} " . ("x" x 20000); sleep 1000`] }),
  ],
]

let words = 0
/** A unique argument that sleep(1) accepts. */
const newWord = () => `1000.${process.pid}${Date.now()}${words++}`

describe.skipIf(!sshdProgram)('processes of a sandbox', () => {
  let sshd: TestSshd
  beforeAll(async () => {
    sshd = await startSshd({ ordinary: process.getuid?.() === 0 })
  })
  afterAll(() => sshd[Symbol.asyncDispose]())

  /** The program runs, and only its ancestry shows that it belongs to the sandbox. */
  const begun = (word: string) =>
    expect.poll(() => processesWith(word).some(({ marked }) => !marked)).toBe(true)
  const gone = (word: string) => expect(processesWith(word)).toEqual([])
  const started = async (
    sandbox: SandboxHandle<SshCapabilities>,
    line: { cmd: string; args: string[] },
    word: string,
  ) => {
    const process = await sandbox.spawn({ ...line, detached: true })
    await begun(word)
    return process
  }

  it.each(programs)('a program %s ends with a stop, a destroy, a kill', async (_, line) => {
    const sandbox = await sshd.provider().create()
    const ways: Array<(execId: string) => Promise<unknown>> = [
      async (execId) => (await sandbox.getProcess(execId)).kill('SIGKILL'),
      () => sandbox.stop(),
      () => sandbox.destroy(),
    ]
    for (const end of ways) {
      if ((await sandbox.info()).status === 'stopped') await sandbox.start()
      const word = newWord()
      const { execId } = await started(sandbox, line(word), word)
      await end(execId)
      gone(word)
    }
  })

  it('end at their timeout', async () => {
    const sandbox = await sshd.provider().create()
    await Promise.all(
      programs.map(async ([, line]) => {
        const word = newWord()
        const running = sandbox.runCommand({ ...line(word), timeoutMs: 8000 })
        await begun(word)
        expect((await running).timedOut).toBe(true)
        gone(word)
      }),
    )
    await sandbox.destroy()
  })

  it('end with the sandbox’s lifetime, without a connected client', async () => {
    const provider = sshd.provider()
    const sandbox = await provider.create({ lifetimeMs: 12_000 })
    const all = programs.map(([, line]) => ({ line, word: newWord() }))
    for (const { line, word } of all) await started(sandbox, line(word), word)
    await provider.close()
    await expect.poll(() => all.flatMap(({ word }) => processesWith(word))).toEqual([])
    await expect.poll(() => existsSync(path.join(sandbox.workdir, '../lock'))).toBe(false)
    await expect.poll(() => processesWith(sandbox.sandboxId)).toEqual([])
    expect((await sandbox.info()).status).toBe('stopped')
    await sandbox.destroy()
  })

  it('that a program leaves behind without an environment end with the sandbox', async () => {
    const sandbox = await sshd.provider().create()
    const word = newWord()
    await sandbox.runCommand({ cmd: 'sh', args: ['-c', `env -i sleep ${word} >/dev/null 2>&1 &`] })
    await begun(word)
    await sandbox.stop()
    gone(word)
    await sandbox.destroy()
  })

  it('of a shell, without an environment, end with the shell', async () => {
    const sandbox = await sshd.provider().create()
    const shell = await sandbox.openShell()
    const word = newWord()
    await shell.exec(`env -i sleep ${word} & env -i setsid sleep ${word} &`)
    await expect.poll(() => processesWith(word).filter(({ marked }) => !marked).length).toBe(2)
    await shell.close()
    gone(word)
    await sandbox.destroy()
  })

  it('receive signals without an environment', async () => {
    const sandbox = await sshd.provider().create()
    const word = newWord()
    const process = await started(sandbox, { cmd: 'env', args: ['-i', 'sleep', word] }, word)
    expect(await process.kill('SIGTERM')).toBe(true)
    expect((await process.wait()).signal).toBe('SIGTERM')
    await sandbox.destroy()
  })

  it('of another sandbox keep running', async () => {
    const provider = sshd.provider()
    const [one, other] = [await provider.create(), await provider.create()]
    const word = newWord()
    const process = await started(other, { cmd: 'env', args: ['-i', 'sleep', word] }, word)
    await one.spawn({ cmd: 'sleep', args: ['1000'], detached: true })
    await one.destroy()
    expect((await process.status()).running).toBe(true)
    await other.destroy()
    gone(word)
  })
})
