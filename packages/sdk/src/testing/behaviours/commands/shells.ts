import { equal, excludes, includes, ok, rejects } from '../../assert.ts'
import type { Trial } from '../../trial.ts'
import type { AnySandbox } from '../../types.ts'
import { group } from '../../types.ts'

/** These use the POSIX shell language, which a provider with the ability `shell` must support. */
export const shells = group('shells', [
  {
    id: 'shell-state',
    name: 'Working directory, variables, functions and aliases persist between commands',
    needs: ['shell'],
    async run(t) {
      const { sandbox, shell } = await open(t)
      const folder = await t.folder(sandbox)
      const result = await shell.exec(`cd ${folder}`)
      equal(result.exitCode, 0, 'exit code of cd')
      ok(result.cwd.endsWith(folder) && shell.cwd.endsWith(folder), `cwd is ${result.cwd}, and ${shell.cwd}`)
      await shell.exec(
        'export EXPORTED=one; PLAIN=two; greet() { echo "hello $1"; }; alias hi="echo aliased"',
      )
      equal(
        (await shell.exec('echo "$EXPORTED $PLAIN"; greet you; sh -c \'echo $EXPORTED\'; hi')).output,
        'one two\nhello you\none\naliased\n',
        'output',
      )
      ok((await shell.exec('pwd')).output.trim().endsWith(folder), 'pwd is elsewhere')
    },
  },
  {
    id: 'shell-exit-code',
    name: 'A command returns its own exit code, which is also $? of the next one',
    needs: ['shell'],
    async run(t) {
      const { shell } = await open(t)
      equal((await shell.exec('sh -c "exit 42"')).exitCode, 42, 'exit code')
      equal((await shell.exec('echo $?')).output, '42\n', '$?')
      equal([(await shell.exec('true')).exitCode, (await shell.exec('false')).exitCode], [0, 1], 'exit codes')
      equal((await shell.exec('no-such-program-here')).exitCode, 127, 'exit code of a missing program')
    },
  },
  {
    id: 'shell-output',
    name: 'Output has stdout and stderr in the order of arrival, unchanged',
    needs: ['shell'],
    async run(t) {
      const { shell } = await open(t)
      equal((await shell.exec('echo one; echo two >&2; printf three')).output, 'one\ntwo\nthree', 'output')
      equal((await shell.exec(':')).output, '', 'output of a command that says nothing')
      equal((await shell.exec('printf "Grüße 🏖️"')).output, 'Grüße 🏖️', 'output outside ASCII')
    },
  },
  {
    id: 'shell-spoof',
    name: 'No output of a command can be mistaken for its end or its status',
    needs: ['shell'],
    async run(t) {
      const { shell } = await open(t)
      const lines = [
        '0',
        'exit 0',
        '__SANDKASTEN_DONE__ 0',
        '\\033]133;D;0\\007',
        '{"exitCode":0}',
        'EXIT:0',
        '$ ',
        '# ',
        '<<<END>>>',
      ]
      const result = await shell.exec(`printf '${lines.join('\\n')}\\n'; sh -c 'exit 9'`)
      equal(result.exitCode, 9, 'exit code')
      for (const line of lines.filter((one) => !one.includes('\\'))) includes(result.output, line, 'output')
      equal(
        (
          await shell.exec(
            'for fd in 3 4 5 6 7 8 9 10 11 12 63 200 255; do (echo "0 spoofed" >&$fd) 2>/dev/null; done; sh -c "exit 8"',
          )
        ).exitCode,
        8,
        'exit code after writing to other descriptors',
      )
      equal((await shell.exec('echo still')).output, 'still\n', 'output of the next command')
    },
  },
  {
    id: 'shell-exit',
    name: 'exit 3 returns 3; the next command runs in a new shell in the same folder and has shellRestarted',
    needs: ['shell'],
    async run(t) {
      const { sandbox, shell } = await open(t)
      const folder = await t.folder(sandbox)
      await shell.exec(`cd ${folder}; LOST=yes`)
      const exit = await shell.exec('exit 3')
      equal(exit.exitCode, 3, 'exit code')
      const next = await shell.exec('echo "[$LOST]"; pwd')
      ok(exit.shellRestarted || next.shellRestarted, 'Neither result says shellRestarted')
      ok(
        next.output.startsWith('[]\n') && next.output.trim().endsWith(folder),
        `the next command printed ${next.output}`,
      )
      equal((await shell.exec('true')).shellRestarted, false, 'shellRestarted of the one after it')
    },
  },
  {
    id: 'shell-set-e',
    name: 'set -e and a failing command do not hang the shell',
    needs: ['shell'],
    async run(t) {
      const { shell } = await open(t)
      equal((await shell.exec('set -e; false')).exitCode, 1, 'exit code')
      equal((await shell.exec('set +e; echo on')).output, 'on\n', 'output of the next command')
    },
  },
  {
    id: 'shell-stdin-eof',
    name: 'A command that reads its input sees end-of-file and returns',
    needs: ['shell'],
    async run(t) {
      const { shell } = await open(t)
      equal(
        [(await shell.exec('cat')).exitCode, (await shell.exec('read line; echo "[$line]"')).output],
        [0, '[]\n'],
        'exit code of cat, and output of read',
      )
    },
  },
  {
    id: 'shell-open-quote',
    name: 'A line with an open quote is a failed command, not a hang, and the shell still works',
    needs: ['shell'],
    async run(t) {
      const { shell } = await open(t)
      for (const line of ["echo 'open", 'echo "open', 'if true; then', 'echo $(', 'cat <<END\nno end', '}']) {
        const result = await shell.exec(line, { timeoutMs: 20_000 })
        equal(result.timedOut, false, `timedOut of ${JSON.stringify(line)}`)
        if (!line.startsWith('cat'))
          ok(result.exitCode !== 0, `the exit code of ${JSON.stringify(line)} is 0`)
      }
      equal((await shell.exec('echo on')).output, 'on\n', 'output of the next command')
    },
  },
  {
    id: 'shell-multiline',
    name: 'A command of several lines, with comments and here-documents, is one command',
    needs: ['shell'],
    async run(t) {
      const { shell } = await open(t)
      const result = await shell.exec(
        'x=1 # a comment\ncat <<END\nhere $x\nEND\nfor i in 1 2; do\n  echo "$i"\ndone\n(exit 5)',
      )
      equal([result.output, result.exitCode], ['here 1\n1\n2\n', 5], 'output and exit code')
    },
  },
  {
    id: 'shell-timeout',
    name: 'A timeout ends the command, not the shell: variables are kept',
    needs: ['shell'],
    async run(t) {
      const { shell } = await open(t)
      await shell.exec('KEPT=yes')
      const result = await shell.exec('echo begun; sleep 1000000', {
        timeoutMs: t.limits.commandTimeoutMs * 2,
      })
      equal(result.timedOut, true, 'timedOut')
      ok(result.output.startsWith('begun\n'), `output is ${JSON.stringify(result.output)}`)
      ok(result.exitCode !== 0, 'The exit code of a killed command is 0')
      const next = await shell.exec('echo "$KEPT"')
      equal(
        [next.output, next.timedOut, next.shellRestarted],
        ['yes\n', false, false],
        'output, timedOut and shellRestarted of the next command',
      )
    },
  },
  {
    id: 'shell-background',
    name: 'A background job keeps running, and neither blocks its command nor writes into the next result',
    needs: ['shell'],
    async run(t) {
      const { sandbox, shell } = await open(t)
      const folder = await t.folder(sandbox)
      const first = await shell.exec(
        `(while ! test -e ${folder}/go; do sleep 0.02; done; echo from the job; : > ${folder}/done) & echo started`,
      )
      ok(first.output.endsWith('started\n'), `the first command printed ${first.output}`)
      await sandbox.files.writeFile(`${folder}/go`, '')
      await t.eventually(() => sandbox.files.exists(`${folder}/done`), 'The job keeps running')
      const next = await shell.exec('echo next')
      equal(next.output, 'next\n', 'output of the next command')
    },
  },
  {
    id: 'shell-serial',
    name: 'Two concurrent commands run one after the other, each with its own output',
    needs: ['shell'],
    async run(t) {
      const { shell } = await open(t)
      const results = await Promise.all([
        shell.exec('sleep 0.1; echo a; n=1'),
        shell.exec('echo b $n'),
        shell.exec('echo c'),
      ])
      equal(
        results.map(({ output }) => output),
        ['a\n', 'b 1\n', 'c\n'],
        'outputs',
      )
    },
  },
  {
    id: 'shell-flood',
    name: '64 MiB of output do not stall the shell, and are truncated to head and tail',
    needs: ['shell'],
    async run(t) {
      const { shell } = await open(t)
      const result = await shell.exec('echo first; yes 0123456789abcde | head -c 67108864; echo last')
      equal([result.truncated, result.exitCode], [true, 0], 'truncated and exit code')
      ok(
        result.output.startsWith('first\n') && result.output.endsWith('last\n'),
        'The beginning or the end is missing',
      )
      ok(result.output.length < 8 * 1024 * 1024, `output has ${result.output.length} characters`)
      equal((await shell.exec('echo on')).output, 'on\n', 'output of the next command')
    },
  },
  {
    id: 'shell-odd-folder',
    name: 'A folder name with spaces, colons, quotes or a newline is reported unchanged',
    needs: ['shell'],
    async run(t) {
      const { sandbox, shell } = await open(t)
      const folder = await t.folder(sandbox)
      for (const name of ['with space', 'a:b', "it's", 'new\nline', ' end ', 'ü🏖️']) {
        await sandbox.files.mkdir(`${folder}/${name}`)
        const { cwd, output } = await shell.exec(`cd '${folder}/${name.replaceAll("'", `'\\''`)}' && pwd`)
        ok(cwd.endsWith(`/${name}`), `cwd is ${JSON.stringify(cwd)} where pwd says ${JSON.stringify(output)}`)
        equal(shell.cwd, cwd, 'cwd of the shell')
        await shell.exec('cd ../..')
      }
    },
  },
  {
    id: 'shell-listener',
    name: 'onOutput receives output while the command runs',
    needs: ['shell'],
    async run(t) {
      const { sandbox, shell } = await open(t)
      const gate = t.unique('gate')
      let heard = ''
      let opened: Promise<void> | undefined
      const result = await shell.exec(
        `echo before; while ! test -e ${gate}; do sleep 0.02; done; echo after`,
        {
          onOutput: (text) => {
            heard += text
            if (heard.includes('before')) opened ??= sandbox.files.writeFile(gate, '')
          },
        },
      )
      await opened
      equal(
        [heard, result.output],
        ['before\nafter\n', 'before\nafter\n'],
        'what onOutput was told, and output',
      )
    },
  },
  {
    id: 'shell-abort',
    name: 'Cancelling a command rejects with aborted, and the shell still works',
    needs: ['shell'],
    async run(t) {
      const { shell } = await open(t)
      const controller = new AbortController()
      await rejects(
        shell.exec('echo x; sleep 1000000', {
          signal: controller.signal,
          onOutput: () => controller.abort(),
        }),
        'aborted',
        'exec',
      )
      equal((await shell.exec('echo on')).output, 'on\n', 'output of the next command')
    },
  },
  {
    id: 'shell-abort-output',
    name: 'The error of a cancelled shell command has the output so far in its details',
    needs: ['shell'],
    async run(t) {
      const { shell } = await open(t)
      const controller = new AbortController()
      const running = shell.exec('echo x; sleep 1000000', {
        signal: controller.signal,
        onOutput: () => controller.abort(),
      })
      const error = await rejects(running, 'aborted', 'exec')
      equal(error.details.output, 'x\n', 'details.output')
    },
  },
  {
    id: 'shell-env-cwd',
    name: 'openShell({ cwd, env }) starts in that folder with these variables',
    needs: ['shell'],
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      const shell = await sandbox.openShell({ cwd: folder, env: { KIT_ENV: 'it\'s "odd"\n$HOME' } })
      t.later(() => shell.close())
      equal((await shell.exec('printf %s "$KIT_ENV"')).output, 'it\'s "odd"\n$HOME', 'the variable')
      ok((await shell.exec('pwd')).output.trim().endsWith(folder), 'It is elsewhere')
      await rejects(
        sandbox.openShell({ cwd: 'no/such/folder' }),
        'cwd_not_found',
        'openShell with a missing cwd',
      )
    },
  },
  {
    id: 'shell-named',
    name: 'Opening a shell by name again returns the same shell; without a name it is a new one',
    needs: ['shell'],
    async run(t) {
      const sandbox = await t.sandbox()
      const name = t.unique('shell')
      const first = await sandbox.openShell({ name })
      t.later(() => first.close())
      await first.exec('SHARED=yes')
      equal(
        (await (await sandbox.openShell({ name })).exec('echo "$SHARED"')).output,
        'yes\n',
        'variable in the same shell',
      )
      const other = await sandbox.openShell()
      t.later(() => other.close())
      equal((await other.exec('echo "[$SHARED]"')).output, '[]\n', 'variable in a new shell')
    },
  },
  {
    id: 'shell-close',
    name: 'close() ends the shell and its programs: true once, then false; later commands are rejected',
    needs: ['shell'],
    async run(t) {
      const { shell } = await open(t)
      equal([await shell.close(), await shell.close()], [true, false], 'close() and once more')
      await rejects(shell.exec('echo x'), ['not_found', 'not_running'], 'exec after close()')
    },
  },
  {
    id: 'shell-no-tricks',
    name: 'A shell prints neither prompts, nor job notices, nor the command itself',
    needs: ['shell'],
    async run(t) {
      const { shell } = await open(t)
      const result = await shell.exec('sleep 0 & wait; echo clean')
      equal(result.output, 'clean\n', 'output')
      excludes((await shell.exec('echo x')).output, 'echo', 'output')
    },
  },
])

async function open(
  t: Trial,
): Promise<{ sandbox: AnySandbox; shell: Awaited<ReturnType<AnySandbox['openShell']>> }> {
  const sandbox = await t.sandbox()
  const shell = await sandbox.openShell()
  t.later(() => shell.close())
  return { sandbox, shell }
}
