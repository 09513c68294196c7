import { equal, includes, ok, rejects } from '../../assert.ts'
import { EventReader } from '../../events.ts'
import type { Trial } from '../../trial.ts'
import { group } from '../../types.ts'

export const exits = group('exit codes and signals', [
  ...[0, 1, 3, 127, 255].map((code) => ({
    id: `exit-${code}`,
    name: `A program that exits with ${code} returns the exit code ${code}, as a result, not an error`,
    async run(t: Trial) {
      const result = await t.run(await t.sandbox(), t.commands.exit(code))
      equal(result.exitCode, code, 'exitCode')
      equal(result.signal, undefined, 'signal')
      equal([result.timedOut, result.truncated], [false, false], 'timedOut and truncated')
      ok(Number.isFinite(result.durationMs) && result.durationMs >= 0, `durationMs is ${result.durationMs}`)
    },
  })),
  {
    id: 'missing-program',
    name: 'A missing program throws command_not_found, and the error names it',
    async run(t) {
      const sandbox = await t.sandbox()
      const error = await rejects(
        sandbox.runCommand({ cmd: t.commands.missing }),
        'command_not_found',
        'runCommand of a missing program',
      )
      includes(error.message, t.commands.missing, 'The message')
      await rejects(
        sandbox.spawn({ cmd: t.commands.missing }),
        'command_not_found',
        'spawn of a missing program',
      )
      equal((await t.run(sandbox, t.commands.print('x'))).stdout, 'x', 'The next command')
    },
  },
  {
    id: 'missing-program-path',
    name: 'A path without a program throws command_not_found too',
    async run(t) {
      await rejects(
        (await t.sandbox()).runCommand({ cmd: './no-such-file' }),
        'command_not_found',
        'runCommand of a missing path',
      )
    },
  },
  {
    id: 'line-as-program',
    name: 'A line given as the name of a program throws command_not_found, and the hint says how to run a line',
    async run(t) {
      const error = await rejects(
        (await t.sandbox()).runCommand({ cmd: `${t.commands.missing} -l` }),
        'command_not_found',
        'runCommand of a line',
      )
      includes(error.hint, "['-c', line]", 'The hint')
    },
  },
  ...(['SIGTERM', 'SIGKILL', 'SIGINT'] as const).map((signal) => ({
    id: `dies-of-${signal.toLowerCase()}`,
    name: `A program killed by ${signal} reports the name in signal, and 128 plus the number in exitCode`,
    async run(t: Trial) {
      const result = await t.run(await t.sandbox(), t.commands.die(signal))
      equal(result.signal, signal, 'signal')
      equal(result.exitCode, 128 + { SIGTERM: 15, SIGKILL: 9, SIGINT: 2 }[signal], 'exitCode')
      equal(result.timedOut, false, 'timedOut')
    },
  })),
  {
    id: 'kill-default-term',
    name: 'kill() sends SIGTERM by default, and the program can clean up and choose its exit code',
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.waitTrapped())
      const reader = new EventReader(process)
      await reader.until('ready\n')
      equal(await process.kill(), true, 'kill()')
      const exit = await reader.exit()
      includes(reader.stdout, 'term\n', 'What it printed on SIGTERM')
      equal(exit.exitCode, 7, 'exitCode')
    },
  },
  {
    id: 'kill-sigkill',
    name: 'kill(SIGKILL) ends a program that handles SIGTERM, and the exit reports the signal',
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.waitTrapped())
      const reader = new EventReader(process)
      await reader.until('ready\n')
      equal(await process.kill('SIGKILL'), true, 'kill()')
      const exit = await reader.exit()
      equal([exit.signal, exit.exitCode], ['SIGKILL', 137], 'signal and exitCode')
    },
  },
  {
    id: 'kill-after-end',
    name: 'kill() of an ended program returns false',
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.exit(0))
      await process.wait()
      equal(await process.kill(), false, 'kill()')
      equal(await process.kill('SIGKILL'), false, 'kill(SIGKILL)')
    },
  },
  {
    id: 'kill-tree',
    name: 'kill() reaches all descendants, also a grandchild',
    async run(t) {
      const sandbox = await t.sandbox()
      const marker = t.unique('tree')
      const process = await t.spawn(sandbox, t.commands.tree(marker))
      await new EventReader(process).until('ready\n')
      const after = new EventReader(await t.spawn(sandbox, t.commands.afterTree(marker)))
      await after.until('watching\n')
      await process.kill('SIGKILL')
      await after.until('gone\n')
    },
  },
  {
    id: 'stop-and-continue',
    name: 'SIGSTOP and SIGCONT do not end the program: it resumes and finishes',
    needs: ['stdin'],
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.relay(), { stdin: 'pipe' })
      const reader = new EventReader(process)
      await process.writeStdin('out one\n')
      await reader.until('one\n')
      equal(await process.kill('SIGSTOP'), true, 'kill(SIGSTOP)')
      equal((await process.status()).running, true, 'running while stopped')
      equal(await process.kill('SIGCONT'), true, 'kill(SIGCONT)')
      await process.writeStdin('out two\nexit 4\n')
      equal((await reader.exit()).exitCode, 4, 'exitCode')
      equal(reader.stdout, 'one\ntwo\n', 'stdout')
    },
  },
  {
    id: 'background-child',
    name: 'A program ends when it exits, even if a child still runs',
    async run(t) {
      const sandbox = await t.create()
      const result = await t.run(sandbox, t.commands.leaveChild())
      equal([result.exitCode, result.stdout], [0, 'started\n'], 'exitCode and stdout')
    },
  },
  {
    id: 'executable-file',
    name: 'A file written with an executable mode can be run by its path',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.writeFile(`${folder}/tool`, t.commands.script, { mode: 0o755 })
      equal((await sandbox.runCommand({ cmd: `./${folder}/tool` })).stdout, 'from a script', 'stdout')
    },
  },
  {
    id: 'not-executable',
    name: 'A file without an executable mode throws permission_denied',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.writeFile(`${folder}/tool`, t.commands.script, { mode: 0o644 })
      await rejects(sandbox.runCommand({ cmd: `./${folder}/tool` }), 'permission_denied', 'running it')
    },
  },
])
