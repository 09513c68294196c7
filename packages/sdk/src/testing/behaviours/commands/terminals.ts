import type { SandboxTerminal } from '../../../spec/index.ts'
import { equal, ok, rejects } from '../../assert.ts'
import { EventReader } from '../../events.ts'
import type { Trial } from '../../trial.ts'
import { group } from '../../types.ts'

export const terminals = group('terminals', [
  {
    id: 'terminal',
    name: 'Input typed into a terminal is executed, and the screen shows the result',
    needs: ['terminal'],
    async run(t) {
      const { terminal, reader } = await open(t)
      await terminal.write('echo $((6 * 7))-answer\n')
      await reader.until('42-answer')
      equal((await terminal.status()).running, true, 'running')
    },
  },
  {
    id: 'terminal-is-one',
    name: 'A program in a terminal sees a terminal of the requested size',
    needs: ['terminal'],
    async run(t) {
      const { terminal, reader } = await open(t)
      await terminal.write('test -t 0 && test -t 1 && echo is"-"tty; stty size\n')
      await reader.until('is-tty')
      await reader.until('30 100')
    },
  },
  {
    id: 'terminal-resize',
    name: 'After resize() programs see the new size',
    needs: ['terminal'],
    async run(t) {
      const { terminal, reader } = await open(t)
      await terminal.resize({ cols: 132, rows: 43 })
      await terminal.write('stty size\n')
      await reader.until('43 132')
    },
  },
  {
    id: 'terminal-interrupt',
    name: 'Control-C ends the running program, not the terminal',
    needs: ['terminal'],
    async run(t) {
      const { terminal, reader } = await open(t)
      // The program prints and then waits, so its output proves that it is in the foreground.
      await terminal.write(`sh -c 'echo go"ing"; exec sleep 1000000'\n`)
      await reader.until('going')
      await terminal.write('\u0003')
      await terminal.write('echo al"ive"\n')
      await reader.until('alive')
    },
  },
  {
    id: 'terminal-exit',
    name: 'When its program ends, a terminal’s output ends with the exit code',
    needs: ['terminal'],
    async run(t) {
      const { terminal, reader } = await open(t)
      await terminal.write('exit 5\n')
      equal((await reader.exit()).exitCode, 5, 'exit code')
      equal(
        [(await terminal.status()).running, await terminal.kill()],
        [false, false],
        'running, and kill() afterwards',
      )
    },
  },
  {
    id: 'terminal-kill',
    name: 'kill() ends a terminal and its programs',
    needs: ['terminal'],
    async run(t) {
      const { terminal, reader } = await open(t)
      equal(await terminal.kill('SIGKILL'), true, 'kill()')
      await reader.exit()
      equal(await terminal.kill('SIGKILL'), false, 'kill() again')
    },
  },
  {
    id: 'terminal-reattach',
    name: 'Opening a terminal by its id returns the same one, and its screen can be read from the start',
    needs: ['terminal'],
    async run(t) {
      const { terminal, reader, sandbox } = await open(t)
      await terminal.write('MARK=kept; echo be"fore"\n')
      await reader.until('before')
      const again = await sandbox.openTerminal({ terminalId: terminal.terminalId })
      equal(again.terminalId, terminal.terminalId, 'terminalId')
      const second = new EventReader(again)
      await second.until('before')
      await again.write('echo "mark-$MARK"\n')
      await second.until('mark-kept')
    },
  },
  {
    id: 'terminal-bad-size',
    name: 'A size of 0 or less throws invalid_argument',
    needs: ['terminal'],
    async run(t) {
      const sandbox = await t.sandbox()
      for (const size of [{ cols: 0 }, { rows: -1 }, { cols: 1.5 }])
        await rejects(sandbox.openTerminal(size), 'invalid_argument', 'openTerminal')
      const { terminal } = await open(t)
      await rejects(terminal.resize({ cols: 0, rows: 10 }), 'invalid_argument', 'resize')
      ok((await terminal.status()).running, 'It has ended')
    },
  },
])

async function open(t: Trial): Promise<{
  sandbox: Awaited<ReturnType<Trial['sandbox']>>
  terminal: SandboxTerminal
  reader: EventReader
}> {
  const sandbox = await t.sandbox()
  const terminal = await sandbox.openTerminal({ cmd: 'sh', cols: 100, rows: 30 })
  t.later(() => terminal.kill('SIGKILL'))
  return { sandbox, terminal, reader: new EventReader(terminal) }
}
