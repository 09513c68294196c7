/** The runner as PID 1, as a bridge, and how it starts and stops. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { Duplex, type Readable } from 'node:stream'
import { RunnerClient } from '@sandkasten/runner-client'
import { describe, expect, it } from 'vitest'
import { buildRunner } from '../../engine/src/runner/build-runner.ts'
import { alive, fresh, startRunner } from './harness.ts'

/** Whether this machine lets root create a pid namespace. */
const mayUnshare = (() => {
  try {
    execFileSync('unshare', ['--pid', '--fork', '--mount-proc', 'true'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})()

describe('the binary', () => {
  it('is static: it needs no library of the image', async () => {
    const elf = await readFile(await buildRunner())
    const [table, size, count] = [Number(elf.readBigUInt64LE(32)), elf.readUInt16LE(54), elf.readUInt16LE(56)]
    const kinds = Array.from({ length: count }, (_, index) => elf.readUInt32LE(table + index * size))
    expect(kinds).toContain(1)
    // Without PT_INTERP there is no dynamic loader.
    expect(kinds).not.toContain(3)
  })

  it('uses less than 2 MiB of memory when idle', async () => {
    await using runner = await startRunner()
    const client = await runner.connect()
    await client.ping()
    expect(await runner.rssKb()).toBeLessThan(2048)
  })

  it('rejects unknown arguments', async () => {
    const binary = await buildRunner()
    const fails = (args: string[]) => {
      try {
        execFileSync(binary, args, { stdio: 'pipe', env: {} })
        return ''
      } catch (error) {
        return String((error as { stderr: Buffer }).stderr)
      }
    }
    expect(fails([])).toContain('usage')
    expect(fails(['serve'])).toContain('--socket')
    expect(fails(['serve', '--frobnicate', '1'])).toContain('no such option')
    expect(fails(['bridge', '--socket', '/nowhere', '--user', 'x'])).toContain('--socket only')
    expect(fails(['serve', '--socket', '/nowhere/at/all'])).toContain('/nowhere/at/all')
  })
})

describe('the socket', () => {
  it('is accessible to its own user only, and there is one runner per socket', async () => {
    await using runner = await startRunner()
    expect(statSync(runner.socket).mode & 0o777).toBe(0o600)
    const second = spawn(await buildRunner(), ['serve', '--socket', runner.socket], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const [code] = await once(second, 'exit')
    expect(code).toBe(1)
    await (await runner.connect()).ping()
  })

  it('of a killed runner is taken over', async () => {
    await using first = await startRunner()
    first.process.kill('SIGKILL')
    await once(first.process, 'exit')
    expect(existsSync(first.socket)).toBe(true)
    const again = spawn(await buildRunner(), ['serve', '--socket', first.socket, '--ready-fd', '3'], {
      stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
    })
    await once(again.stdio[3] as Readable, 'data')
    const client = await RunnerClient.connectUnix(first.socket)
    await client.ping()
    client.close()
    again.kill('SIGTERM')
    await once(again, 'exit')
    expect(existsSync(first.socket)).toBe(false)
  })

  it('a new runner process has another identity than the old one', async () => {
    await using one = await startRunner()
    await using two = await startRunner()
    const [a, b, c] = [await one.connect(), await one.connect(), await two.connect()]
    expect(a.connection.welcome.boot).toBe(b.connection.welcome.boot)
    expect(a.connection.welcome.boot).not.toBe(c.connection.welcome.boot)
  })
})

describe('bridge', () => {
  it('carries the socket over standard input and output', async () => {
    await using runner = await startRunner()
    const bridge = spawn(await buildRunner(), ['bridge', '--socket', runner.socket], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const client = await RunnerClient.connect(
      Duplex.from({ readable: bridge.stdout, writable: bridge.stdin }),
    )
    const block = Buffer.alloc(1024 * 1024, 'b')
    const result = await client.run({
      id: fresh(),
      argv: ['cat'],
      input: Array.from({ length: 8 }, () => block),
      maxBytes: 10,
    })
    expect(result.omitted + 10).toBe(8 * 1024 * 1024)
    client.close()
    expect((await once(bridge, 'exit'))[0]).toBe(0)
    const lost = spawn(await buildRunner(), ['bridge', '--socket', `${runner.folder}/none`], {
      stdio: ['pipe', 'pipe', 'ignore'],
    })
    expect((await once(lost, 'exit'))[0]).toBe(1)
  })
})

describe('signals', () => {
  it('are forwarded; TERM ends all processes of the runner, then the runner', async () => {
    await using runner = await startRunner()
    const client = await runner.connect()
    const process = await client.start({
      id: 'p',
      argv: [
        'sh',
        '-c',
        'trap "echo hup" HUP; trap "echo term; exit 9" TERM; echo ready; while :; do sleep 0.01; done',
      ],
    })
    const shell = await client.openShell({ id: 's' })
    await shell.exec('true', { id: fresh() })
    const until = async (text: string): Promise<void> => {
      for (let seen = ''; !seen.includes(text); ) {
        const event = await process.next()
        if (event === undefined) throw new Error(`ended without ${text}: ${seen}`)
        if (event.type === 'output') seen += event.data.toString()
      }
    }
    await until('ready\n')
    runner.process.kill('SIGHUP')
    await until('hup\n')
    const exited = once(runner.process, 'exit')
    runner.process.kill('SIGTERM')
    await until('term\n')
    expect((await process.exit).exitCode).toBe(9)
    expect((await exited)[0]).toBe(0)
    expect(existsSync(runner.socket)).toBe(false)
  })

  it('a second TERM kills all processes; no process starts during the shutdown', async () => {
    await using runner = await startRunner()
    const client = await runner.connect()
    const stubborn = await client.start({
      id: 'p',
      argv: ['sh', '-c', 'trap "" TERM; echo ready; while :; do sleep 0.01; done'],
    })
    await stubborn.next()
    const { pid } = stubborn
    runner.process.kill('SIGTERM')
    let refused: { code?: string } = {}
    while (refused.code === undefined)
      refused = await client.startDetached({ id: fresh(), argv: ['true'] }).catch((error) => error)
    expect(refused.code).toBe('unavailable')
    expect(await alive(pid)).toBe(true)
    const exited = once(runner.process, 'exit')
    runner.process.kill('SIGTERM')
    await exited
    expect(await alive(pid)).toBe(false)
  })
})

describe.skipIf(!mayUnshare)('as PID 1 (needs root: unshare --pid)', () => {
  const wrap = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc']

  it('reaps every orphan: double forks, new sessions, hundreds of them', async () => {
    await using runner = await startRunner({ wrap })
    const client = await runner.connect()
    expect(client.connection.welcome.pid).toBe(1)
    const storm =
      'for i in $(seq 200); do (setsid sh -c "sleep 0.02 & sleep 0.01" & ); done; setsid sleep 1000 & echo done'
    expect((await client.run({ id: fresh(), argv: ['sh', '-c', storm] })).stdout.toString()).toBe('done\n')
    for (;;) {
      const { stdout } = await client.run({ id: fresh(), argv: ['ps', '-eo', 'stat=,args='] })
      const lines = stdout.toString().trim().split('\n')
      if (lines.filter((line) => line.startsWith('Z')).length === 0 && lines.length <= 3) break
    }
    const left = await client.run({ id: fresh(), argv: ['ps', '-eo', 'ppid=,args='] })
    // Processes that left their session are now children of the runner and end with it.
    expect(left.stdout.toString()).toMatch(/^\s*1 sleep 1000$/m)
  })

  it('survives signals and files from inside', async () => {
    await using runner = await startRunner({ wrap })
    const client = await runner.connect()
    await client.run({
      id: fresh(),
      argv: ['sh', '-c', 'kill -9 1; kill -SEGV 1; kill -STOP 1; kill -USR1 1; kill -HUP 1'],
    })
    await client.ping()
    // The signal kills every process except PID 1 and its sender.
    const { pid } = await client.startDetached({ id: 'victim', argv: ['sleep', '1000'] })
    expect(pid).toBeGreaterThan(1)
    await client.run({ id: fresh(), argv: ['sh', '-c', 'kill -9 -1'] })
    expect(await client.wait('victim')).toMatchObject({ signal: 'SIGKILL' })
    expect((await client.run({ id: fresh(), argv: ['echo', 'still here'] })).stdout.toString()).toBe(
      'still here\n',
    )
  })

  it.skipIf(process.getuid?.() !== 0)('runs everything as the user it was given', async () => {
    await using runner = await startRunner({ wrap, args: ['--user', 'nobody', '--cwd', '/usr'] })
    const client = await runner.connect()
    expect((await client.run({ id: fresh(), argv: ['sh', '-c', 'id -un; pwd'] })).stdout.toString()).toBe(
      'nobody\n/usr\n',
    )
    const shell = await client.openShell({ id: 's' })
    expect(
      (await shell.exec('id -un; pwd; jobs; sleep 0.01 & wait; echo ok', { id: fresh() })).output.toString(),
    ).toMatch(/^nobody\n\/usr\n.*ok\n$/s)
    await expect(client.files.read('/etc/shadow')).rejects.toMatchObject({ code: 'permission_denied' })
    const terminal = await client.run({
      id: fresh(),
      argv: ['sh', '-c', 'test -t 1 && echo > /dev/tty && echo tty'],
      tty: true,
    })
    expect(terminal.stdout.toString()).toContain('tty')
    // That user cannot access the runner's socket or memory either.
    const attack = await client.run({
      id: fresh(),
      argv: ['sh', '-c', 'cat /proc/1/environ; ls /proc/1/fd; kill -TERM 1; echo tried'],
    })
    expect(attack.stdout.toString()).toBe('tried\n')
  })
})
