import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { RunnerClient } from '@sandkasten/runner-client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { alive, fresh, startRunner, type TestRunner } from './harness.ts'

/** Login shells read profiles, and no profile breaks the shell. */

let runner: TestRunner
let client: RunnerClient
const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-login-'))

beforeAll(async () => {
  runner = await startRunner()
  client = await runner.connect()
})
afterAll(async () => {
  await runner[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

function home(files: Record<string, string>): string {
  const at = path.join(folder, fresh('home'))
  mkdirSync(at)
  for (const [name, text] of Object.entries(files)) writeFileSync(path.join(at, name), text)
  return at
}

const PATH = '/opt/tools/bin:/usr/local/bin:/usr/bin:/bin'

async function open(files: Record<string, string>, shell: 'bash' | 'sh' = 'bash', loginTimeoutMs = 20_000) {
  const HOME = home(files)
  const opened = await client.openShell({
    id: fresh('shell'),
    shell,
    login: true,
    loginTimeoutMs,
    cwd: '/usr',
    env: { HOME, PATH },
  })
  return {
    HOME,
    close: () => opened.close(),
    async exec(command: string, timeoutMs?: number) {
      const result = await opened.exec(command, { id: fresh('c'), timeoutMs })
      return { ...result, output: result.output.toString(), cwd: Buffer.from(result.cwd ?? []).toString() }
    },
  }
}

const profileOf = { bash: '.bash_profile', sh: '.profile' } as const

describe.each(['bash', 'sh'] as const)('a login %s', (flavour) => {
  const profile = (text: string, patienceMs?: number) =>
    open({ [profileOf[flavour]]: text }, flavour, patienceMs)

  it('reads the profile of its user and starts in the requested folder', async () => {
    const shell = await profile(
      'export FROM_PROFILE=yes; greet() { echo hello; }; cd /; echo noise; echo noise >&2\n',
    )
    expect(await shell.exec('echo "$FROM_PROFILE"; greet; pwd')).toMatchObject({
      output: 'yes\nhello\n/usr\n',
      cwd: '/usr',
      restarted: false,
      loginSkipped: undefined,
    })
    // State and exit codes work as in any other shell.
    expect(await shell.exec('cd /tmp; X=1; false')).toMatchObject({ exitCode: 1, cwd: '/tmp' })
    expect((await shell.exec('echo "$? $X"')).output).toBe('1 1\n')
    // The new shell after an exit is a login shell again.
    await shell.exec('exit 0')
    expect(await shell.exec('echo "$FROM_PROFILE"; pwd')).toMatchObject({
      output: 'yes\n/tmp\n',
      restarted: true,
    })
    await shell.close()
  })

  it('keeps the given PATH in front of the profile’s PATH', async () => {
    for (const [text, expected] of [
      ['PATH=/profile/bin:$PATH', `/profile/bin:${PATH}`],
      ['PATH=/usr/bin:/bin', '/opt/tools/bin:/usr/local/bin:/usr/bin:/bin'],
      ['unset PATH', PATH],
      ['PATH=', PATH],
    ] as const) {
      const shell = await profile(`${text}\n`)
      // The machine's own /etc/profile may have set another one first.
      const { output } = await shell.exec('echo "$PATH"; env | grep -c "^PATH="')
      const [path, exported] = output.trim().split('\n')
      expect(exported).toBe('1')
      for (const entry of expected.split(':')) expect(path!.split(':')).toContain(entry)
      expect(path!.indexOf('/opt/tools/bin')).toBeLessThan(path!.lastIndexOf('/usr/bin'))
      await shell.close()
    }
  })

  it.each([
    ['leaves', 'exit 1', 'exited'],
    ['exits with success', 'exit 0', 'exited'],
    ['kills its shell', 'kill -9 $$', 'exited'],
    ['executes another program', 'exec true', 'exited'],
    ['closes its input', 'exec </dev/null', 'exited'],
    ['executes a shell with a script', 'exec sh -c :', 'exited'],
    ['starts a nested shell', 'bash --norc', 'replaced'],
    ['sleeps forever', 'sleep 1000', 'timeout'],
    ['loops forever', 'while :; do :; done', 'timeout'],
    ['reads the shell’s input', 'while read line; do :; done', undefined],
    ['stops itself', 'kill -STOP $$', 'timeout'],
    ['executes a program that never answers', 'exec sleep 1000', 'timeout'],
  ])('a profile that %s is abandoned, and the shell works', { timeout: 30_000 }, async (_, text, why) => {
    const shell = await profile(`BEFORE=1\n${text}\n`, 1500)
    const first = await shell.exec('echo "works $BEFORE"; pwd', 20_000)
    expect(first).toMatchObject({ exitCode: 0, timedOut: false, restarted: false })
    expect(first.output).toMatch(/^works 1?\n\/usr\n$/)
    if (why) expect(first.loginSkipped).toBe(why)
    expect(await shell.exec('X=2; echo again')).toMatchObject({ output: 'again\n', loginSkipped: undefined })
    expect((await shell.exec('echo $X')).output).toBe('2\n')
    await shell.close()
  })

  it('a profile with set -e, with ignored signals or with a syntax error does not end the shell', async () => {
    for (const text of ['set -e', 'set -eu', "trap '' INT TERM QUIT HUP", 'if then', 'set -x', 'set -v']) {
      const shell = await profile(`${text}\n`)
      expect(await shell.exec('false; echo on'), text).toMatchObject({
        output: expect.stringContaining('on\n'),
        exitCode: 0,
      })
      expect(await shell.exec('false'), text).toMatchObject({ exitCode: 1 })
      expect(await shell.exec('sleep 100', 300), text).toMatchObject({ timedOut: true })
      expect(await shell.exec('echo here'), text).toMatchObject({
        output: expect.stringContaining('here'),
        restarted: false,
      })
      await shell.close()
    }
  })

  it('processes of an abandoned profile end with it', { timeout: 30_000 }, async () => {
    const shell = await profile('sleep 1000 & echo $! > ~/pid; sleep 1001\n', 1500)
    expect((await shell.exec('echo works')).loginSkipped).toBe('timeout')
    expect(await alive(Number(readFileSync(path.join(shell.HOME, 'pid'), 'utf8')))).toBe(false)
    await shell.close()
  })

  it('a shell that is busy with its profile can be closed', async () => {
    const shell = await profile('sleep 1000\n')
    const waiting = shell.exec('echo never')
    waiting.catch(() => {})
    await shell.close()
    await expect(waiting).rejects.toMatchObject({ code: 'aborted' })
  })
})

it('a profile that executes bash instead of sh is kept', async () => {
  const shell = await open({ '.profile': 'export BEFORE=1; exec bash --norc\n' }, 'sh')
  expect(await shell.exec('echo "works $BEFORE"; pwd; [ -n "$BASH_VERSION" ] && echo bash')).toMatchObject({
    output: 'works 1\n/usr\nbash\n',
    exitCode: 0,
    restarted: false,
    loginSkipped: undefined,
  })
  await shell.close()
})

it('bash reads .bashrc if there is no profile', async () => {
  const shell = await open({ '.bashrc': 'alias hey="echo rc"; shopt -s expand_aliases\n' })
  expect((await shell.exec('hey')).output).toBe('rc\n')
  await shell.close()
  const both = await open({ '.bashrc': 'RC=1\n', '.bash_profile': 'PROFILE=1\n' })
  expect((await both.exec('echo "$PROFILE$RC"')).output).toBe('1\n')
  await both.close()
})

it('a profile that locks the shell’s variables is abandoned', async () => {
  const shell = await open({ '.bash_profile': 'readonly PROMPT_COMMAND=:\n' })
  expect(await shell.exec('echo works')).toMatchObject({ output: 'works\n', loginSkipped: 'replaced' })
  await shell.close()
})

it('a shell that is not a login shell reads no profile', async () => {
  const HOME = home({ '.bash_profile': 'A=1', '.bashrc': 'A=1', '.profile': 'A=1' })
  const shell = await client.openShell({ id: fresh('shell'), env: { HOME } })
  expect((await shell.exec('echo "[$A]"', { id: fresh('c') })).output.toString()).toBe('[]\n')
  await shell.close()
})
