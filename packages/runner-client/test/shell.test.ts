import type {
  CommandOptions,
  CommandResult,
  RunnerClient,
  RunnerShell,
  TaskOutput,
} from '@sandkasten/runner-client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { alive, fresh, startRunner, type TestRunner } from './harness.ts'

let runner: TestRunner
let client: RunnerClient

beforeAll(async () => {
  runner = await startRunner()
  client = await runner.connect()
})
afterAll(() => runner[Symbol.asyncDispose]())

type Result = Omit<CommandResult, 'output' | 'stderr' | 'cwd'> & {
  output: string
  stderr: string
  cwd: string
}

async function run(
  shell: RunnerShell,
  command: string | Buffer,
  options: Partial<CommandOptions> = {},
): Promise<Result> {
  const result = await shell.exec(command, { id: fresh('c'), ...options })
  const text = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString()
  return { ...result, output: text(result.output), stderr: text(result.stderr), cwd: text(result.cwd) }
}

/** Sends INT repeatedly, because the first may arrive before the program handles it. */
async function endBy(signal: string, id: string, output: TaskOutput, pause = '0.02') {
  let ended = false
  output.exit.finally(() => {
    ended = true
  })
  while (!ended) {
    await client.signal(id, signal).catch(() => {})
    await client.run({ id: fresh(), argv: ['sleep', pause] })
  }
  return output.exit
}

describe.each(['bash', 'sh'] as const)('a stateful %s', (flavour) => {
  let shell: RunnerShell
  const exec = (command: string | Buffer, options?: Partial<CommandOptions>) => run(shell, command, options)
  /** Builtins of bash that a POSIX sh lacks. */
  const isBash = flavour === 'bash'

  beforeAll(async () => {
    shell = await client.openShell({ id: fresh('shell'), shell: flavour, cwd: '/' })
    expect(shell.shell).toBe(flavour)
  })
  afterAll(() => shell.close())

  it('exposes no code or variables of the runner', async () => {
    expect(await exec('echo hi')).toMatchObject({
      output: 'hi\n',
      exitCode: 0,
      cwd: '/',
      timedOut: false,
      restarted: false,
    })
    expect(await exec(':')).toMatchObject({ output: '', exitCode: 0 })
    expect(
      (await exec('PS1="prompt> "; PS2="more> "; set -v; set -x; echo x; set +x; set +v')).output,
    ).not.toMatch(/prompt|printf|eval/)
    expect((await exec('echo clean')).output).toBe('clean\n')
  })

  it('keeps folder, variables, functions, aliases, options and $?', async () => {
    await exec(
      'cd /usr; export EXPORTED=1; PLAIN=2; greet() { echo "hello $1"; }; alias hey="echo aliased"; set -f; false',
    )
    const result = await exec(
      'echo $?; pwd; env | grep ^EXPORTED; echo $PLAIN; greet you; hey; echo *; set +f',
    )
    expect(result.output).toBe('1\n/usr\nEXPORTED=1\n2\nhello you\naliased\n*\n')
    expect(result.cwd).toBe('/usr')
    await exec('cd /')
  })

  it('keeps background jobs, and can wait for them', async () => {
    await exec('sleep 1000 & echo $!')
    expect((await exec('jobs')).output).toMatch(/Running\s+sleep 1000/)
    // KILL, because every shell loses a TERM that reaches a child before its exec.
    const killed = await exec('kill -9 %1; wait %1; echo $?')
    expect(killed.output).toContain('137')
  })

  it('reports a folder of any name', async () => {
    const name = Buffer.concat([Buffer.from(`${runner.folder}/a:b c'"\n\t$(x)`), Buffer.from([0xff])])
    await client.files.mkdir(name, { parents: true })
    const quoted = Buffer.concat([
      Buffer.from("cd '"),
      Buffer.from(name.toString('latin1').replaceAll("'", "'\\''"), 'latin1'),
      Buffer.from("'"),
    ])
    const result = await shell.exec(quoted, { id: fresh() })
    expect(Buffer.from(result.cwd ?? [])).toEqual(name)
    await exec('cd /')
  })

  it('gives a command an empty standard input, never the runner’s control data', async () => {
    expect(await exec('cat; read x; echo "read: $?"')).toMatchObject({ output: 'read: 1\n' })
    expect((await exec('wc -c')).output.trim()).toBe('0')
    expect((await exec('sh')).output).toBe('')
    expect((await exec('echo alive')).output).toBe('alive\n')
  })

  it.each([
    ["an open quote '", "echo 'abc"],
    ['an open double quote', 'echo "abc'],
    ['an open substitution', 'echo $(echo'],
    ['an open heredoc', 'cat <<EOF\nhello'],
    ['an open quoted heredoc', "cat <<'EOF' && echo more\nhello\n"],
    ['an unfinished if', 'if true; then'],
    ['a stray bracket', ')'],
    ['a stray quote and a shell command', "'; exit 9; '"],
  ])('reports %s as an error and keeps running', async (_, text) => {
    const result = await exec(text)
    expect(result.exitCode).not.toBe(0)
    expect(result.output + result.stderr).not.toBe('')
    expect(result.output).not.toContain('hello')
    expect(await exec('echo fine')).toMatchObject({ output: 'fine\n', exitCode: 0, restarted: false })
  })

  it('runs a complete heredoc, and shift operators that look like one', async () => {
    expect((await exec('cat <<EOF\nhello $((1<<3))\nEOF\necho after')).output).toBe('hello 8\nafter\n')
  })

  it('passes no descriptor of the runner to programs', async () => {
    const listing = await exec('ls -l /proc/self/fd | sed 1d | wc -l; ls -l /proc/self/fd')
    // 0, 1, 2 and the listed folder.
    expect(listing.output.split('\n')[0]?.trim()).toBe('4')
    expect(listing.output).not.toContain('pipe')
  })

  it('has no control or status stream that a program could open through /proc', async () => {
    const look =
      'for f in /proc/$1/fd/*; do case $(readlink $f) in pipe:*) echo pipe;; socket:*) echo socket; (: <$f) 2>/dev/null && echo opened; (: >$f) 2>/dev/null && echo opened;; esac; done'
    const result = await exec(`sh -c '${look}' sh $$`)
    expect(result.output).toContain('socket')
    expect(result.output).not.toMatch(/pipe|opened/)
    expect(await exec('echo fine')).toMatchObject({ output: 'fine\n', restarted: false })
  })

  it('a flood on the controlling terminal is not output and blocks no command', async () => {
    const id = fresh()
    const flood = await shell.start('cat /dev/zero >/dev/tty', { id })
    for (let round = 0; round < 10; round++) {
      expect((await client.run({ id: fresh(), argv: ['echo', 'x'] })).stdout.toString()).toBe('x\n')
    }
    await client.signal(id, 'KILL')
    // If the interrupt comes too early for the flood, the shell may print that it was terminated.
    let text = ''
    for await (const event of flood) if (event.type === 'output') text += event.data.toString()
    expect(text).not.toContain('\0')
    expect(await exec('echo fine')).toMatchObject({ output: 'fine\n', exitCode: 0 })
  })

  it('ignores a forged status that is printed or written to any descriptor', async () => {
    const forge = String.raw`printf '%032d\000%s\000%s\000' 0 0 /forged`
    const result = await exec(
      `${forge}; for fd in 3 4 5 6 7 8 9 10 11 12 198 255; do sh -c "${forge.replaceAll('"', '\\"')} >&$fd" 2>/dev/null; done; cd /usr; (exit 7)`,
    )
    expect(result).toMatchObject({ exitCode: 7, cwd: '/usr' })
    expect(result.output).toContain('/forged')
    expect(await exec('cd /; echo next')).toMatchObject({ output: 'next\n', exitCode: 0 })
  })

  it('exit ends the shell with its code; the next command reports a new shell in the last folder', async () => {
    await exec('LOST=1')
    expect(await exec('cd /etc; exit 3')).toMatchObject({
      exitCode: 3,
      shellExited: true,
      output: '',
      cwd: '/etc',
    })
    expect(await exec('pwd; echo "lost: $LOST"')).toMatchObject({
      output: '/etc\nlost: \n',
      restarted: true,
      exitCode: 0,
    })
    expect(await exec('echo steady')).toMatchObject({ output: 'steady\n', restarted: false })
    await exec('cd /')
  })

  it.each([
    ['set -e; false', 1],
    ['exec sh -c "exit 4"', 4],
    ['set -e; false; echo not reached', 1],
  ])('`%s` ends the shell and not the session', async (text, exitCode) => {
    expect(await exec(text)).toMatchObject({ exitCode, shellExited: true, output: '' })
    expect(await exec('echo back')).toMatchObject({ output: 'back\n', restarted: true })
  })

  it('a killed shell is reported as a signal, not as an exit code', async () => {
    expect(await exec('echo x; kill -9 $$')).toMatchObject({
      output: 'x\n',
      signal: 'SIGKILL',
      exitCode: undefined,
      shellExited: true,
    })
    expect(await exec('echo back')).toMatchObject({ restarted: true })
  })

  it.each([
    ['a program', 'sleep 1000; echo not reached'],
    [
      'a program that ignores INT and TERM',
      'sh -c \'trap "" INT TERM; sleep 1000; sleep 1000\'; echo not reached',
    ],
    ['a loop of the shell itself', 'while :; do :; done'],
    ['a loop of programs', 'for i in 1 2 3 4 5; do sleep 1000; done; echo not reached'],
    ['a pipeline', 'sleep 1000 | cat | cat; echo not reached'],
    // Marks need root.
    ...(process.getuid?.() === 0
      ? [
          [
            'a program outside the process group that the shell waits for',
            'true | setsid sleep 1000; echo not reached',
          ],
        ]
      : []),
  ])('a timeout ends %s, and the shell keeps its state', async (_, text) => {
    await exec('KEPT=yes')
    const result = await exec(text, { timeoutMs: 50 })
    expect(result).toMatchObject({ timedOut: true })
    expect(result.output).not.toContain('not reached')
    expect(result.shellExited).toBeUndefined()
    expect(await exec('echo $KEPT')).toMatchObject({ output: 'yes\n', restarted: false, timedOut: false })
  })

  it('a timeout leaves nothing of the command running', async () => {
    const output = await shell.start('sh -c \'echo $$; trap "" INT; sleep 1000\'', {
      id: fresh(),
      timeoutMs: 100,
    })
    const event = await output.next()
    const pid = Number(event?.type === 'output' ? event.data.toString() : 0)
    expect(pid).toBeGreaterThan(1)
    output.discard()
    expect((await output.exit).timedOut).toBe(true)
    while (await alive(pid)) await client.ping()
  })

  it.skipIf(process.getuid?.() !== 0)(
    'ending a command ends its own jobs, but not the jobs of an earlier command or their children (needs root)',
    async () => {
      const fifo = `${runner.folder}/${fresh('fifo')}`
      const older = await exec(
        `mkfifo ${fifo}; sh -c 'while :; do sleep 0.01; done' & echo $!; sh -c 'read x <${fifo}; sh -c "read y <${fifo}"; :' & echo $!`,
      )
      // The second job starts its child while the next command runs.
      const id = fresh()
      const output = await shell.start(
        `setsid sleep 1000 & echo $!; sleep 1000 & echo $!; echo go >${fifo}; echo sent; wait`,
        { id },
      )
      let text = ''
      for await (const event of output) {
        if (event.type === 'output') text += event.data.toString()
        if (text.endsWith('sent\n')) await client.signal(id, 'KILL')
      }
      const own = text.split('\n').slice(0, 2).map(Number)
      for (const pid of own) while (await alive(pid)) await client.ping()
      const [loop = 0, reader = 0] = older.output.trim().split('\n').map(Number)
      expect([await alive(loop), await alive(reader)]).toEqual([true, true])
      // The child still runs: it reads a line, then both end.
      await client.run({ id: fresh(), argv: ['sh', '-c', `echo go >${fifo}`] })
      while (await alive(reader)) await client.ping()
      await exec(`kill ${loop}`)
    },
  )

  it('a shell that ignores interrupts is killed, and the next command reports it', async () => {
    // Set the trap in an earlier command: on a busy machine, the timeout may expire before a command begins.
    await exec('trap "" INT')
    const result = await exec('while :; do :; done', { timeoutMs: 20 })
    expect(result).toMatchObject({ timedOut: true, signal: 'SIGKILL', shellExited: true })
    expect(await exec('echo back')).toMatchObject({ output: 'back\n', restarted: true })
  })

  it('a caller can interrupt or kill a command, which is not reported as a timeout', async () => {
    for (const signal of ['INT', 'KILL']) {
      const id = fresh()
      const output = await shell.start('echo go; sleep 1000', { id })
      await output.next()
      expect(await endBy(signal, id, output)).toMatchObject({ timedOut: false })
    }
    expect(await exec('echo on')).toMatchObject({ output: 'on\n', restarted: false })
  })

  it('an interrupt during the start of a program ends it, and the next command runs', async () => {
    for (let round = 0; round < 100; round += 1) {
      const id = fresh()
      const output = await shell.start('echo go; sleep 1000', { id })
      await output.next()
      await endBy('INT', id, output, '0.005')
    }
  })

  it('an interrupt of a shell loop does not end a job that the command started before', async () => {
    const id = fresh()
    const output = await shell.start('sleep 1000 & echo $!; sleep 0.2; echo go; while :; do :; done', { id })
    const said = ((await output.next()) as { data: Buffer }).data
    const job = Number(said.toString().split('\n')[0])
    while (!said.includes('go') && !((await output.next()) as { data: Buffer }).data.includes('go'));
    expect((await endBy('INT', id, output)).exitCode).toBe(130)
    expect((await exec(`kill ${job} && echo was there`)).output).toBe('was there\n')
  })

  it('output and end of a background job belong to its own command', async () => {
    const fifo = `${runner.folder}/${fresh('fifo')}`
    await exec(`mkfifo ${fifo}`)
    const id = fresh()
    const first = await shell.exec(`(read x <${fifo}; echo from the background; exit 5) & echo started`, {
      id,
    })
    expect(first.output.toString()).toBe('started\n')
    const late = await client.attach(id, { after: first.last, until: 'end' })
    expect(await exec(`echo go >${fifo}; sleep 0.1; echo second`)).toMatchObject({
      output: 'second\n',
      exitCode: 0,
    })
    const event = await late.next()
    expect(event).toMatchObject({ type: 'output', data: Buffer.from('from the background\n') })
    expect((await late.exit).exitCode).toBe(0)
    expect(await exec('sleep 0.02 & :')).toMatchObject({ output: '' })
    expect(await exec('sleep 0.06; echo third')).toMatchObject({ output: 'third\n' })
  })

  it('concurrent commands run one after the other, in order', async () => {
    const file = `${runner.folder}/${fresh('order')}`
    const results = await Promise.all(
      [1, 2, 3, 4].map((n) =>
        exec(`echo begin ${n} >>${file}; sleep 0.02; echo end ${n} >>${file}; cat ${file} | wc -l`),
      ),
    )
    expect(results.map((result) => result.output.trim())).toEqual(['2', '4', '6', '8'])
    expect((await exec(`cat ${file}`)).output).toBe(
      [1, 2, 3, 4].map((n) => `begin ${n}\nend ${n}\n`).join(''),
    )
  })

  it('a command with the id of another is not run again', async () => {
    const file = `${runner.folder}/${fresh('once')}`
    const id = fresh()
    expect((await exec(`echo x >>${file}; echo out`, { id })).output).toBe('out\n')
    expect((await exec(`echo x >>${file}; echo out`, { id })).output).toBe('out\n')
    expect((await exec(`cat ${file}`)).output).toBe('x\n')
  })

  it('carries bytes as they are, without terminal rewriting', async () => {
    const result = await shell.exec(String.raw`printf 'a\nb\r\n\377\000\033[31m\t'`, { id: fresh() })
    expect(result.output).toEqual(Buffer.from('610a620d0aff001b5b33316d09', 'hex'))
    const long = await exec('head -c 300 /dev/zero | tr "\\0" x')
    expect(long.output).toBe('x'.repeat(300))
  })

  it('keeps stdout and stderr in order, or separate on request', async () => {
    expect(await exec('echo a; echo b >&2; echo c')).toMatchObject({ output: 'a\nb\nc\n', stderr: '' })
    expect(await exec('echo a; echo b >&2; echo c', { separate: true })).toMatchObject({
      output: 'a\nc\n',
      stderr: 'b\n',
    })
  })

  it('runs on a terminal, with job control and no pager', async () => {
    const result = await exec('test -t 1 && echo tty; echo $PAGER; stty size <&1', { cols: 123, rows: 45 })
    expect(result.output).toBe('tty\ncat\n45 123\n')
  })

  it('runs a large command', async () => {
    const text = 'x'.repeat(200_000)
    expect((await exec(`: '${text}'; echo ok`)).output).toBe('ok\n')
  })

  it('survives hostile shell state', async () => {
    await exec('set -u; set -o noclobber; IFS=/; unset PWD; alias printf=false; alias eval=false; cd /usr')
    expect(await exec('echo still')).toMatchObject({
      output: 'still\n',
      exitCode: 0,
      cwd: '/usr',
      restarted: false,
    })
    if (isBash) {
      await exec(
        'printf() { echo fake; }; eval() { echo fake; }; trap "echo debugged" DEBUG; PROMPT_COMMAND="echo prompted"; shopt -s failglob',
      )
      expect((await exec('trap - DEBUG; :')).output).not.toContain('prompted')
      expect(await exec('builtin echo still')).toMatchObject({
        output: 'still\n',
        exitCode: 0,
        restarted: false,
      })
    }
    await exec('exit')
  })
})

describe('shells', () => {
  it('1 GiB of output neither stalls nor grows memory, and keeps head and tail', async () => {
    const shell = await client.openShell({ id: fresh('shell') })
    const output = await shell.start('echo first; head -c 1073741824 /dev/zero; echo last', { id: fresh() })
    let [total, most, tail] = [0, 0, '']
    for (
      let event = await output.next(), count = 0;
      event !== undefined;
      event = await output.next(), count++
    ) {
      if (event.type !== 'output') throw new Error('a paced reader lost output')
      total += event.data.length
      tail = event.data.subarray(-5).toString()
      if (count % 20_000 === 0) most = Math.max(most, await runner.rssKb())
    }
    expect([total, tail]).toEqual([1024 ** 3 + 11, 'last\n'])
    expect(most).toBeLessThan(6 * 1024)
    expect((await output.exit).exitCode).toBe(0)
    const kept = await shell.exec('echo head; head -c 5000000 /dev/zero; echo tail', {
      id: fresh(),
      maxBytes: 1000,
    })
    expect(kept.output.subarray(0, 5).toString() + kept.output.subarray(-5).toString()).toBe('head\ntail\n')
    expect(kept.output.length + kept.omitted).toBe(5_000_010)
    await shell.close()
  }, 240_000)

  it('outlive their client: a new client finds shell, state and running command', async () => {
    const id = fresh('shell')
    const command = fresh()
    const own = await runner.connect()
    const shell = await own.openShell({ id })
    await run(shell, 'cd /usr; STATE=kept')
    await shell.start('sleep 0.1; echo done', { id: command })
    own.close()
    const again = await client.openShell({ id })
    expect(again.existed).toBe(true)
    const output = await client.attach(command)
    expect(await output.next()).toMatchObject({ data: Buffer.from('done\n') })
    expect(await run(again, 'echo $STATE; pwd')).toMatchObject({ output: 'kept\n/usr\n' })
    expect((await client.listShells()).find((info) => info.id === id)).toMatchObject({
      shell: 'bash',
      queued: 0,
    })
    await again.close()
    await expect(run(again, 'echo no')).rejects.toMatchObject({ code: 'not_found' })
  })

  it('close ends the running command and fails the queued one', async () => {
    const shell = await client.openShell({ id: fresh('shell') })
    const running = await shell.start('echo go; sleep 1000', { id: fresh() })
    await running.next()
    const waiting = run(shell, 'echo never')
    waiting.catch(() => {})
    await client.ping()
    await shell.close()
    await expect(waiting).rejects.toMatchObject({ code: 'aborted' })
    expect(await running.exit).toMatchObject({ shellExited: true })
  })

  it('falls back to sh without bash, and to the initial folder if the last one is gone', async () => {
    const bin = `${runner.folder}/bin`
    await client.files.mkdir(bin)
    await client.run({
      id: fresh(),
      argv: ['sh', '-c', `ln -s "$(command -v sh)" "$(command -v rmdir)" ${bin}/`],
    })
    const shell = await client.openShell({ id: fresh('shell'), env: { PATH: bin }, cwd: '/usr' })
    expect(shell.shell).toBe('sh')
    await client.files.mkdir(`${runner.folder}/going`)
    await run(shell, `cd ${runner.folder}/going`)
    await run(shell, `rmdir ${runner.folder}/going; exit 1`)
    expect(await run(shell, 'pwd')).toMatchObject({ output: '/usr\n', restarted: true })
    await shell.close()
  })

  it('an unknown shell, an empty id and a NUL in a command are rejected', async () => {
    await expect(client.openShell({ id: 'x', shell: 'fish' as 'sh' })).rejects.toMatchObject({
      code: 'invalid_argument',
    })
    await expect(client.openShell({ id: '' })).rejects.toMatchObject({ code: 'invalid_argument' })
    const shell = await client.openShell({ id: fresh('shell') })
    await expect(run(shell, 'echo \0')).rejects.toMatchObject({ code: 'invalid_argument' })
    await shell.close()
  })
})

it('a command of sh whose status is unreadable fails, and the shell stays usable', async () => {
  const shell = await client.openShell({ id: fresh('shell'), shell: 'sh', cwd: '/' })
  await expect(run(shell, 'printf() { command printf "$1" unreadable "$3"; }')).rejects.toMatchObject({
    details: { runnerCode: 'io' },
    message: expect.stringContaining('unreadable exit status'),
  })
  expect(await run(shell, 'unset -f printf; echo on')).toMatchObject({ exitCode: 0, output: 'on\n' })
  await shell.close()
})
