import { readFile } from 'node:fs/promises'
import type { RunnerClient, TaskOutput } from '@sandkasten/runner-client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { alive, fresh, startRunner, type TestRunner } from './harness.ts'

let runner: TestRunner
let client: RunnerClient

beforeAll(async () => {
  runner = await startRunner({ env: { ...process.env, FROM_RUNNER: 'yes', SANDKASTEN_RUNNER_SECRET: 'no' } })
  client = await runner.connect()
})
afterAll(() => runner[Symbol.asyncDispose]())

const sh = (line: string): string[] => ['sh', '-c', line]

/** Reads until the text has arrived. */
async function until(output: TaskOutput, text: string): Promise<string> {
  let seen = ''
  while (!seen.includes(text)) {
    const event = await output.next()
    if (event === undefined) throw new Error(`ended without '${text}': ${seen}`)
    if (event.type === 'output') seen += event.data.toString()
  }
  return seen
}

describe('a process', () => {
  it('keeps stdout and stderr apart, byte for byte, and its exit code', async () => {
    const result = await client.run({
      id: fresh(),
      argv: sh(String.raw`printf 'a\r\n\377\0b'; printf 'e\n' >&2; exit 0`),
    })
    expect([...result.stdout]).toEqual([97, 13, 10, 255, 0, 98])
    expect(result.stderr.toString()).toBe('e\n')
    expect(result).toMatchObject({ exitCode: 0, timedOut: false, omitted: 0 })
    expect(result.signal).toBeUndefined()
    expect((await client.run({ id: fresh(), argv: sh('exit 3') })).exitCode).toBe(3)
  })

  it('reports the signal that ended it, without an exit code', async () => {
    const result = await client.run({ id: fresh(), argv: sh('kill -SEGV $$') })
    expect(result).toMatchObject({ signal: 'SIGSEGV', exitCode: undefined })
  })

  it('gets its input and then end of file; without input, end of file at once', async () => {
    expect((await client.run({ id: fresh(), argv: ['cat'], input: 'hello' })).stdout.toString()).toBe('hello')
    expect((await client.run({ id: fresh(), argv: ['cat'] })).exitCode).toBe(0)
  })

  it('gets input of any size, with backpressure', async () => {
    const block = Buffer.alloc(1024 * 1024, 'x')
    const result = await client.run({
      id: fresh(),
      argv: ['wc', '-c'],
      input: Array.from({ length: 20 }, () => block),
    })
    expect(result.stdout.toString().trim()).toBe(String(20 * 1024 * 1024))
  })

  it('that ends without reading its input does not hang its writer', async () => {
    const block = Buffer.alloc(1024 * 1024, 'x')
    const result = await client.run({
      id: fresh(),
      argv: ['true'],
      input: Array.from({ length: 8 }, () => block),
    })
    expect(result.exitCode).toBe(0)
  })

  it('gets arguments and environment as bytes; the environment is merged', async () => {
    const result = await client.run({
      id: fresh(),
      argv: [
        'sh',
        '-c',
        'printf "%s|" "$1" "$A" "$FROM_RUNNER"; printenv HOME SANDKASTEN_RUNNER_SECRET || echo hidden',
        'sh',
        Buffer.from([0xff, 0x20]),
      ],
      env: { A: 'a b', HOME: null },
    })
    expect(result.stdout).toEqual(
      Buffer.concat([Buffer.from([0xff, 0x20]), Buffer.from('|a b|yes|hidden\n')]),
    )
    const bare = await client.run({ id: fresh(), argv: ['/usr/bin/env'], clearEnv: true, env: { ONLY: '1' } })
    expect(bare.stdout.toString()).toBe('ONLY=1\n')
  })

  it('gets large arguments', async () => {
    const argument = 'y'.repeat(120_000)
    const result = await client.run({ id: fresh(), argv: ['printf', '%s', argument, argument, argument] })
    expect(result.exitCode).toBe(0)
    expect(result.stdout.length + result.omitted).toBe(360_000)
  })

  it('runs in its folder, and distinguishes a missing program, a missing folder and a missing permission', async () => {
    expect((await client.run({ id: fresh(), argv: ['pwd'], cwd: '/usr' })).stdout.toString()).toBe('/usr\n')
    const failure = (options: object) => client.run({ id: fresh(), argv: ['true'], ...options })
    await expect(failure({ argv: ['no-such-program'] })).rejects.toMatchObject({ code: 'command_not_found' })
    await expect(failure({ cwd: '/no/such/folder' })).rejects.toMatchObject({ code: 'cwd_not_found' })
    await expect(failure({ argv: ['/etc/passwd'] })).rejects.toMatchObject({ code: 'permission_denied' })
    await expect(failure({ argv: [] })).rejects.toMatchObject({ code: 'invalid_argument' })
    await expect(failure({ argv: ['a\0b'] })).rejects.toMatchObject({ code: 'invalid_argument' })
    await expect(failure({ env: { 'A=B': 'c' } })).rejects.toMatchObject({ code: 'invalid_argument' })
    await expect(failure({ user: 'nobody-by-this-name' })).rejects.toMatchObject({ code: 'not_found' })
  })

  it('runs a script without an interpreter line as sh does', async () => {
    const path = `${runner.folder}/script`
    await client.files.write(path, 'echo "$0 $1"\n', { mode: 0o755 })
    expect((await client.run({ id: fresh(), argv: [path, 'x'] })).stdout.toString()).toBe(`${path} x\n`)
  })

  it('has the requested resource limits', async () => {
    const files = await client.run({
      id: fresh(),
      argv: sh('ulimit -n; ulimit -f'),
      limits: { openFiles: 37, fileBytes: 51200 },
    })
    expect(files.stdout.toString()).toBe('37\n100\n')
    const cpu = await client.run({ id: fresh(), argv: sh('while :; do :; done'), limits: { cpuSeconds: 1 } })
    expect(['SIGXCPU', 'SIGKILL']).toContain(cpu.signal)
    await expect(
      client.run({ id: fresh(), argv: ['true'], limits: { typo: 1 } as object }),
    ).rejects.toMatchObject({ code: 'invalid_argument' })
  })

  it.skipIf(process.getuid?.() !== 0)(
    'runs as another user with that user’s groups and cannot switch back (needs root)',
    async () => {
      const result = await client.run({
        id: fresh(),
        argv: sh('id -u; id -g; id -G | cut -d" " -f1; echo $HOME; cat /etc/shadow'),
        user: 'nobody',
      })
      expect(result.stdout.toString()).toBe('65534\n65534\n65534\n/nonexistent\n')
      expect(result.exitCode).not.toBe(0)
      expect(
        (await client.run({ id: fresh(), argv: ['id', '-u'], user: '1234:5678' })).stdout.toString(),
      ).toBe('1234\n')
    },
  )

  it('on a terminal: size, resize, controlling terminal, end of input', async () => {
    const id = fresh()
    const script =
      'stty size; test -t 0 && test -t 1 && test -t 2 && echo ttys; tty </dev/tty >/dev/null && echo ctty; trap "stty size; exit 7" WINCH; echo ready; while :; do sleep 0.05; done'
    const process = await client.start({ id, argv: sh(script), tty: true, stdin: true, cols: 91, rows: 17 })
    expect((await until(process, 'ready')).replaceAll('\r', '')).toBe('17 91\nttys\nctty\nready\n')
    await client.resize(id, { cols: 120, rows: 40 })
    expect(await until(process, '40 120')).toContain('40 120')
    expect((await process.exit).exitCode).toBe(7)
    const cat = await client.start({ id: fresh(), argv: ['cat'], tty: true, stdin: true })
    await cat.write('typed\n')
    await until(cat, 'typed\r\ntyped\r\n')
    await cat.endStdin()
    expect((await cat.exit).exitCode).toBe(0)
  })

  it('with the id of another process returns that process, so retries are safe', async () => {
    const id = fresh()
    const path = `${runner.folder}/once`
    const options = { id, argv: sh(`echo x >> ${path}; cat`), stdin: true }
    const first = await client.start(options)
    const second = await (await runner.connect()).start(options)
    expect([first.existed, second.existed]).toEqual([false, true])
    expect(second.pid).toBe(first.pid)
    await first.endStdin()
    expect((await first.exit).exitCode).toBe(0)
    expect((await second.exit).exitCode).toBe(0)
    expect((await client.run(options)).exitCode).toBe(0)
    expect(await readFile(path, 'utf8')).toBe('x\n')
    await client.forget(id)
    await expect(client.run(options)).rejects.toMatchObject({ code: 'gone' })
    await expect(client.attach(id)).rejects.toMatchObject({ code: 'gone' })
    await expect(client.attach('never-started')).rejects.toMatchObject({ code: 'not_found' })
  })

  it('detached: the call returns at once, and the process is in the list', async () => {
    const id = fresh()
    const { pid, existed } = await client.startDetached({ id, argv: ['sleep', '1000'] })
    expect([existed, await alive(pid)]).toEqual([false, true])
    expect((await client.list()).find((task) => task.id === id)).toMatchObject({
      kind: 'process',
      pid,
      running: true,
    })
    await client.signal(id, 'KILL')
    expect(await client.wait(id)).toMatchObject({ signal: 'SIGKILL' })
    expect((await client.list()).find((task) => task.id === id)).toMatchObject({
      running: false,
      exit: { signal: 'SIGKILL' },
    })
  })
})

describe('ending', () => {
  it('bound processes end with their connection and their children; others continue', async () => {
    const second = await runner.connect()
    const line = 'sleep 1000 & echo $! & wait'
    const bound = await second.start({ id: fresh(), argv: sh(line), bound: true })
    const child = Number(await until(bound, '\n'))
    const free = await second.start({ id: fresh(), argv: ['sleep', '1000'] })
    // A repeated request finds the first process and binds nothing.
    await second.start({ id: free.id, argv: ['sleep', '1000'], bound: true })
    const shell = await second.openShell({ id: fresh('shell'), cwd: '/' })
    const job = Number((await shell.exec('sleep 1000 & echo $!', { id: fresh() })).output.toString())
    const command = await shell.start("sh -c 'echo $$; exec sleep 1000'", { id: fresh(), bound: true })
    const queued = fresh()
    await shell.start('touch /tmp/never', { id: queued, bound: true })
    const inShell = Number(await until(command, '\n'))
    const bounds = [bound.pid, child, inShell]
    expect(await Promise.all(bounds.map(alive))).toEqual([true, true, true])
    await second.close()
    for (const pid of bounds) while (await alive(pid)) await client.ping()
    const again = await client.openShell({ id: shell.id })
    expect(again.existed).toBe(true)
    expect((await again.exec('true', { id: fresh() })).restarted).toBe(false)
    expect(await alive(job)).toBe(true)
    await expect(client.wait(queued)).rejects.toMatchObject({ code: 'aborted' })
    expect(await alive(free.pid)).toBe(true)
    await client.signal(free.id, 'KILL')
    await again.close()
  })

  it('a timeout kills the whole process group and is reported', async () => {
    const result = await client.run({
      id: fresh(),
      argv: sh('trap "" TERM; (trap "" TERM; sleep 1000) & echo $!; wait; sleep 1000'),
      timeoutMs: 50,
      graceMs: 10,
    })
    expect(result).toMatchObject({ timedOut: true, signal: 'SIGKILL' })
    const child = Number(result.stdout.toString())
    expect(child).toBeGreaterThan(1)
    while (await alive(child)) await client.ping()
  })

  it('a process that handles TERM ends within the grace period with a result', async () => {
    const result = await client.run({
      id: fresh(),
      argv: sh('trap "exit 5" TERM; while :; do sleep 0.02; done'),
      timeoutMs: 50,
      graceMs: 60_000,
    })
    expect(result).toMatchObject({ timedOut: true, exitCode: 5 })
  })

  it('a background child that keeps the output open does not delay the exit', async () => {
    const id = fresh()
    const process = await client.start({ id, argv: sh('sleep 1000 & echo $!') })
    const child = Number((await until(process, '\n')).trim())
    expect((await process.exit).exitCode).toBe(0)
    expect(await alive(child)).toBe(true)
    // The group outlives its leader and can still be signalled.
    await client.signal(id, 'KILL', { group: true })
    while (await alive(child)) await client.ping()
    await expect(client.signal(id, 'TERM')).rejects.toMatchObject({ code: 'not_found' })
    await expect(client.signal(id, 'TERM', { group: true })).rejects.toMatchObject({ code: 'not_found' })
  })

  it('later output of a background child can be read', async () => {
    const id = fresh()
    const fifo = `${runner.folder}/late`
    await client.run({ id: fresh(), argv: ['mkfifo', fifo] })
    const process = await client.start({ id, argv: sh(`(read x < ${fifo}; echo late) & echo early`) })
    expect(await until(process, 'early')).toBe('early\n')
    const { last } = await process.exit
    const later = await client.attach(id, { after: last, until: 'end' })
    await client.run({ id: fresh(), argv: sh(`echo go > ${fifo}`) })
    expect(await until(later, 'late')).toBe('late\n')
    expect((await later.exit).exitCode).toBe(0)
  })

  it('a signal goes only to the process unless `group` is set', async () => {
    const id = fresh()
    const process = await client.start({
      id,
      argv: sh('trap "echo parent" USR1; sleep 1000 & echo ready; while :; do wait; done'),
    })
    await until(process, 'ready')
    await client.signal(id, 'SIGUSR1')
    await until(process, 'parent')
    await client.signal(id, 'KILL', { group: true })
    expect((await process.exit).signal).toBe('SIGKILL')
    await expect(client.signal(id, 'NOSUCH')).rejects.toMatchObject({ code: 'invalid_argument' })
  })

  it('orphans are reaped, not left as zombies', async () => {
    const result = await client.run({
      id: fresh(),
      argv: sh('for i in 1 2 3 4 5; do (sleep 0.05 & echo $!) ; done'),
    })
    const orphans = result.stdout.toString().trim().split('\n').map(Number)
    expect(orphans).toHaveLength(5)
    for (const pid of orphans) {
      // A zombie would still have its folder in /proc.
      for (;;) {
        const there = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
        if (there === '') break
        await client.ping()
      }
    }
  })

  it('programs cannot trace the runner or read its memory', async () => {
    if (process.getuid?.() !== 0) return
    const result = await client.run({
      id: fresh(),
      argv: sh(`cat /proc/${runner.pid}/environ; ls /proc/${runner.pid}/fd`),
      user: 'nobody',
    })
    expect(result.stdout.toString()).toBe('')
  })
})
