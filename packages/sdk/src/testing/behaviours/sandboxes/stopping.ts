import { SandboxError } from '../../../errors.ts'
import { equal, ok, rejects } from '../../assert.ts'
import { EventReader, settledBefore } from '../../events.ts'
import { group } from '../../types.ts'

export const stopping = group('stop, start and pause', [
  {
    id: 'stop-start',
    name: 'stop() and start() keep the disk, and the handle works again afterwards',
    needs: ['stop'],
    async run(t) {
      const sandbox = await t.create()
      await sandbox.files.writeFile('dir/note', 'kept')
      await sandbox.stop()
      equal(await sandbox.status(), 'stopped', 'status after stop()')
      await sandbox.start()
      equal(
        [await sandbox.status(), await sandbox.files.readFile('dir/note', 'utf8')],
        ['running', 'kept'],
        'status and content after start()',
      )
      equal((await t.run(sandbox, t.commands.print('on'))).stdout, 'on', 'stdout')
    },
  },
  {
    id: 'stop-twice',
    name: 'stop() of a stopped and start() of a running sandbox do nothing',
    needs: ['stop'],
    async run(t) {
      const sandbox = await t.create()
      await sandbox.start()
      await sandbox.stop()
      await sandbox.stop()
      equal(await sandbox.status(), 'stopped', 'status')
      await sandbox.start()
      await sandbox.start()
      equal(await sandbox.status(), 'running', 'status')
    },
  },
  {
    id: 'stop-ends-processes',
    name: 'stop() ends all programs; none of them runs after start()',
    needs: ['stop'],
    async run(t) {
      const sandbox = await t.create()
      const process = await t.spawn(sandbox, t.commands.tree(t.unique('tree')), { detached: true })
      const reader = new EventReader(process)
      await reader.until('ready\n')
      await sandbox.stop()
      await reader.exit().catch(() => {})
      await sandbox.start()
      if (sandbox.capabilities.reattach) {
        equal(
          (await sandbox.listProcesses()).filter(({ running }) => running).length,
          0,
          'number of programs that run',
        )
      }
    },
  },
  {
    id: 'not-running',
    name: 'A stopped sandbox rejects commands and files with not_running',
    needs: ['stop'],
    async run(t) {
      const sandbox = await t.create()
      await sandbox.stop()
      const refused = await rejects(t.run(sandbox, t.commands.exit(0)), 'not_running', 'runCommand')
      equal(refused.details.started, undefined, 'details.started of a command that never ran')
      await rejects(sandbox.spawn({ ...t.commands.exit(0) }), 'not_running', 'spawn')
      await rejects(sandbox.files.writeFile('x', 'x'), 'not_running', 'writeFile')
    },
  },
  {
    id: 'stop-during-command',
    name: 'A command that stop() interrupts returns its exit, or an error that says that it had started',
    needs: ['stop'],
    async run(t) {
      const sandbox = await t.create()
      const started = Promise.withResolvers<void>()
      const running = t.run(sandbox, t.commands.wait(), { onStdout: () => started.resolve() })
      const ended = running.then(
        ({ exitCode }) => exitCode,
        (error: unknown) => error,
      )
      await started.promise
      await sandbox.stop()
      const end = await ended
      if (typeof end === 'number') return ok(end !== 0, 'The program ended with 0')
      ok(SandboxError.is(end), `Expected a SandboxError, got ${String(end)}`)
      // Other errors say by themselves that the result is lost.
      if (['not_running', 'interrupted', 'not_found'].includes(end.code))
        equal(end.details.started, true, `details.started of ${end.code}`)
      equal(end.retryable, false, `retryable of ${end.code}`)
    },
  },
  {
    id: 'interrupted',
    name: 'After a restart by another caller, an old handle throws interrupted; a new one works',
    needs: ['stop'],
    async run(t) {
      const old = await t.create()
      const other = await t.provider.get(old.id)
      await other.stop()
      await other.start()
      await rejects(t.run(old, t.commands.exit(0)), 'interrupted', 'runCommand of the old handle')
      await rejects(old.files.list(), 'interrupted', 'files.list of the old handle')
      equal(
        (await t.run(other, t.commands.print('new'))).stdout,
        'new',
        'stdout of the handle that started it',
      )
      equal(
        (await t.run(await t.provider.get(old.id), t.commands.print('newer'))).stdout,
        'newer',
        'stdout of a new handle',
      )
    },
  },
  {
    id: 'get-starts',
    name: 'get() starts a stopped sandbox, unless resume: false',
    needs: ['stop'],
    async run(t) {
      const sandbox = await t.create()
      await sandbox.stop()
      const asleep = await t.provider.get(sandbox.id, { resume: false })
      equal(
        [await asleep.status(), await sandbox.status()],
        ['stopped', 'stopped'],
        'status after get({ resume: false })',
      )
      await rejects(t.run(asleep, t.commands.exit(0)), 'not_running', 'runCommand of that handle')
      const awake = await t.provider.get(sandbox.id)
      equal(await awake.status(), 'running', 'status after get()')
    },
  },
  {
    id: 'look-without-waking',
    name: 'status(), info() and list() do not wake a stopped sandbox',
    needs: ['stop'],
    async run(t) {
      const sandbox = await t.create()
      await sandbox.stop()
      await sandbox.info()
      equal(
        (await t.provider.list()).find(({ id }) => id === sandbox.id)?.status,
        'stopped',
        'status in the list',
      )
      equal(await sandbox.status(), 'stopped', 'status')
    },
  },
  {
    id: 'destroy-stopped',
    name: 'A stopped sandbox can be destroyed',
    needs: ['stop'],
    async run(t) {
      const sandbox = await t.create()
      await sandbox.stop()
      equal(
        [await sandbox.destroy(), await t.provider.destroy(sandbox.id)],
        [true, false],
        'destroy() and once more',
      )
    },
  },
  {
    id: 'env-after-start',
    name: 'envVars of create are also set after stop and start',
    needs: ['stop'],
    options: ['envVars'],
    async run(t) {
      const sandbox = await t.create({ envVars: { KIT_BASE: 'base' } })
      await sandbox.stop()
      await sandbox.start()
      equal((await t.run(sandbox, t.commands.printEnv('KIT_BASE'))).stdout, 'base', 'the variable')
    },
  },
  {
    id: 'pause',
    name: 'A paused program makes no progress, and continues after resume()',
    needs: ['pause', 'stdin'],
    async run(t) {
      const sandbox = await t.create()
      const process = await t.spawn(sandbox, t.commands.relay(), { stdin: 'pipe' })
      const reader = new EventReader(process)
      await process.writeStdin('out before\n')
      await reader.until('before\n')
      await sandbox.pause()
      equal(await sandbox.status(), 'paused', 'status')
      const told = await process.writeStdin('out after\n').then(
        () => true,
        () => false,
      )
      const answer = reader.next()
      const looks = (async () => {
        for (let look = 0; look < 10; look += 1) await sandbox.status()
      })()
      ok(!(await settledBefore(answer, looks)), 'The program answered while it was paused')
      await sandbox.resume()
      equal(await sandbox.status(), 'running', 'status')
      if (!told) await process.writeStdin('out after\n')
      const event = await answer
      equal(
        event?.type === 'stdout' ? new TextDecoder().decode(event.data) : event?.type,
        'after\n',
        'the answer',
      )
    },
  },
  {
    id: 'pause-keeps-handle',
    name: 'pause() and resume() do not affect processes and handles',
    needs: ['pause'],
    async run(t) {
      const sandbox = await t.create()
      await sandbox.files.writeFile('note', 'kept')
      const process = await t.spawn(sandbox, t.commands.wait())
      await new EventReader(process).until('ready\n')
      await sandbox.pause()
      await sandbox.resume()
      equal(
        [(await process.status()).running, await sandbox.files.readFile('note', 'utf8')],
        [true, 'kept'],
        'running, and content',
      )
    },
  },
])
