import { equal, ok, rejects } from '../../assert.ts'
import { EventReader } from '../../events.ts'
import { group } from '../../types.ts'

export const processes = group('processes', [
  {
    id: 'spawn-returns-early',
    name: 'spawn() returns while the program runs; its status is running, then how it ended',
    async run(t) {
      const sandbox = await t.sandbox()
      const gate = t.unique('gate')
      const process = await t.spawn(sandbox, t.commands.gate(gate))
      equal(await process.status(), { running: true }, 'status while it runs')
      await sandbox.files.writeFile(gate, '')
      const result = await process.wait()
      const status = await process.status()
      equal(
        [status.running, status.exit?.exitCode, status.exit?.timedOut],
        [false, result.exitCode, false],
        'status after its end',
      )
    },
  },
  {
    id: 'process-id',
    name: 'Every process has a unique id',
    async run(t) {
      const sandbox = await t.sandbox()
      const ids = await Promise.all(
        [1, 2, 3].map(async () => (await t.spawn(sandbox, t.commands.exit(0))).execId),
      )
      equal(new Set(ids).size, 3, 'number of different ids')
      ok(
        ids.every((id) => typeof id === 'string' && id !== ''),
        'An id is empty',
      )
    },
  },
  {
    id: 'detached-returns-handle',
    name: 'runCommand({ detached: true }) returns immediately with the process',
    async run(t) {
      const process = await (await t.sandbox()).runCommand({ ...t.commands.wait(), detached: true })
      t.later(() => process.kill('SIGKILL'))
      await new EventReader(process).until('ready\n')
      equal((await process.status()).running, true, 'running')
      equal(await process.kill('SIGKILL'), true, 'kill()')
      equal((await process.wait()).signal, 'SIGKILL', 'signal')
    },
  },
  {
    id: 'two-at-once',
    name: 'Concurrent commands do not wait for each other',
    async run(t) {
      const sandbox = await t.sandbox()
      const [first, second] = [t.unique('gate'), t.unique('gate')]
      const a = await t.spawn(sandbox, t.commands.gate(first))
      const b = await t.spawn(sandbox, t.commands.gate(second))
      // In reverse order of their start: neither can be queued behind the other.
      await sandbox.files.writeFile(second, '')
      equal((await b.wait()).stdout, 'before\nafter\n', 'stdout of the second')
      equal((await a.status()).running, true, 'running, the first')
      await sandbox.files.writeFile(first, '')
      equal((await a.wait()).stdout, 'before\nafter\n', 'stdout of the first')
    },
  },
  {
    id: 'fifty-at-once',
    name: 'Fifty concurrent commands each get their own output and exit code',
    async run(t) {
      const sandbox = await t.sandbox()
      const results = await Promise.all(
        Array.from({ length: 50 }, (_, index) =>
          t.run(sandbox, t.commands.relay(), { stdin: `out number ${index}\nexit ${index}\n` }),
        ),
      )
      equal(
        results.map(({ stdout, exitCode }) => [stdout, exitCode]),
        results.map((_, index) => [`number ${index}\n`, index]),
        'stdout and exit codes',
      )
    },
  },
  {
    id: 'get-process',
    name: 'A new handle finds a process by its id, with all of its output',
    needs: ['reattach'],
    async run(t) {
      const sandbox = await t.sandbox()
      const gate = t.unique('gate')
      const process = await t.spawn(sandbox, t.commands.gate(gate), { detached: true })
      await new EventReader(process).until('before\n')
      const other = await (await t.provider.get(sandbox.id)).getProcess(process.execId)
      equal((await other.status()).running, true, 'running')
      await sandbox.files.writeFile(gate, '')
      const result = await other.wait()
      equal([result.stdout, result.exitCode], ['before\nafter\n', 0], 'stdout and exitCode')
    },
  },
  {
    id: 'get-process-reopened',
    name: 'Another process of the user finds a detached process and its output, running or ended',
    needs: ['reattach'],
    async run(t) {
      const sandbox = await t.sandbox()
      const gate = t.unique('gate')
      const running = await t.spawn(sandbox, t.commands.gate(gate), { detached: true })
      const ended = await t.spawn(sandbox, t.commands.relay(), {
        detached: true,
        stdin: 'out kept\nerr too\nexit 9\n',
      })
      await ended.wait()
      await new EventReader(running).until('before\n')
      // Without a second provider object, use a second handle of the first; `without` states the reason.
      const provider = (await t.reopened()) ?? t.provider
      const again = await provider.get(sandbox.id)
      const endedAgain = await (await again.getProcess(ended.execId)).wait()
      equal(
        [endedAgain.stdout, endedAgain.stderr, endedAgain.exitCode],
        ['kept\n', 'too\n', 9],
        'what the ended one left',
      )
      const runningAgain = await again.getProcess(running.execId)
      await again.files.writeFile(gate, '')
      equal((await runningAgain.wait()).stdout, 'before\nafter\n', 'stdout of the running one')
    },
  },
  {
    id: 'kill-reattached',
    name: 'A process found by its id can be killed',
    needs: ['reattach'],
    async run(t) {
      const sandbox = await t.sandbox()
      const process = await t.spawn(sandbox, t.commands.wait(), { detached: true })
      await new EventReader(process).until('ready\n')
      const again = await (await t.provider.get(sandbox.id)).getProcess(process.execId)
      equal(await again.kill('SIGKILL'), true, 'kill()')
      equal((await process.wait()).signal, 'SIGKILL', 'signal')
    },
  },
  {
    id: 'get-process-unknown',
    name: 'An unknown process id throws not_found',
    needs: ['reattach'],
    async run(t) {
      await rejects((await t.sandbox()).getProcess('no-such-process'), 'not_found', 'getProcess()')
    },
  },
  {
    id: 'list-processes',
    name: 'listProcesses() returns running and ended processes, with program and arguments',
    needs: ['reattach'],
    async run(t) {
      const sandbox = await t.create()
      const running = await t.spawn(sandbox, t.commands.wait())
      const ended = await t.spawn(sandbox, t.commands.exit(6))
      await ended.wait()
      const list = new Map((await sandbox.listProcesses()).map((info) => [info.execId, info]))
      equal(list.get(running.execId)?.running, true, 'running of the running process')
      const info = list.get(ended.execId)
      equal([info?.running, info?.exit?.exitCode], [false, 6], 'running and exit code of the ended process')
      if (info?.cmd !== undefined)
        equal(
          [info.cmd, info.args],
          [t.commands.exit(6).cmd, t.commands.exit(6).args],
          'program and arguments',
        )
    },
  },
  {
    id: 'process-id-idempotent',
    name: 'A second spawn() with the same execId returns the first process and starts nothing',
    async run(t) {
      const sandbox = await t.sandbox()
      const execId = t.unique('mine')
      const first = await t.spawn(sandbox, t.commands.print('first'), { execId })
      equal(first.execId, execId, 'execId')
      await first.wait()
      const second = await t.spawn(sandbox, t.commands.print('second'), { execId })
      equal((await second.wait()).stdout, 'first', 'stdout of the second')
    },
  },
  {
    id: 'process-id-race',
    name: 'Two concurrent spawns with the same execId start one program',
    async run(t) {
      const sandbox = await t.sandbox()
      const execId = t.unique('mine')
      const both = await Promise.all(
        ['a', 'b'].map((text) => t.spawn(sandbox, t.commands.print(text), { execId })),
      )
      const outputs = await Promise.all(both.map(async (process) => (await process.wait()).stdout))
      equal(outputs[0], outputs[1], 'stdout of both')
      ok(outputs[0] === 'a' || outputs[0] === 'b', `it printed ${JSON.stringify(outputs[0])}`)
    },
  },
])
