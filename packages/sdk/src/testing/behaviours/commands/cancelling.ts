import { equal, ok, rejects } from '../../assert.ts'
import { EventReader } from '../../events.ts'
import { group } from '../../types.ts'

export const cancelling = group('timeouts and cancelling', [
  {
    id: 'timeout',
    name: 'A command that exceeds timeoutMs is killed; its result has timedOut and the output so far',
    async run(t) {
      const result = await t.run(await t.sandbox(), t.commands.wait(), {
        timeoutMs: t.limits.commandTimeoutMs,
      })
      equal(result.timedOut, true, 'timedOut')
      ok(result.exitCode !== 0, 'The exit code of a killed command is 0')
      equal(result.stdout, 'ready\n', 'stdout')
    },
  },
  {
    id: 'timeout-trapped',
    name: 'A program that handles SIGTERM does not outlive its timeout',
    async run(t) {
      const result = await t.run(await t.sandbox(), t.commands.waitTrapped(), {
        timeoutMs: t.limits.commandTimeoutMs,
      })
      equal(result.timedOut, true, 'timedOut')
    },
  },
  {
    id: 'timeout-tree',
    name: 'A timeout kills the whole tree, also a grandchild that ignores SIGTERM',
    async run(t) {
      const sandbox = await t.sandbox()
      const marker = t.unique('tree')
      const process = await t.spawn(sandbox, t.commands.tree(marker), {
        timeoutMs: t.limits.commandTimeoutMs * 4,
      })
      const reader = new EventReader(process)
      await reader.until('ready\n')
      const after = new EventReader(await t.spawn(sandbox, t.commands.afterTree(marker)))
      await after.until('watching\n')
      equal((await reader.exit()).timedOut, true, 'timedOut')
      await after.until('gone\n')
    },
  },
  {
    id: 'timeout-not-reached',
    name: 'A command that ends in time is not reported as timed out',
    async run(t) {
      const result = await t.run(await t.sandbox(), t.commands.exit(0), { timeoutMs: 60_000 })
      equal([result.timedOut, result.exitCode], [false, 0], 'timedOut and exitCode')
    },
  },
  {
    id: 'timeout-spawn',
    name: 'timeoutMs of spawn ends the process, and its status and exit event have timedOut',
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.wait(), {
        timeoutMs: t.limits.commandTimeoutMs,
      })
      equal((await new EventReader(process).exit()).timedOut, true, 'timedOut of the event')
      equal((await process.status()).exit?.timedOut, true, 'timedOut of the status')
    },
  },
  {
    id: 'wait-timeout',
    name: 'wait({ timeoutMs }) rejects with timeout, and the process keeps running',
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.wait())
      await rejects(process.wait({ timeoutMs: t.limits.commandTimeoutMs }), 'timeout', 'wait()')
      equal((await process.status()).running, true, 'running')
    },
  },
  {
    id: 'abort-before',
    name: 'A command whose signal has already fired is not started',
    async run(t) {
      const sandbox = await t.sandbox()
      const marker = t.unique('marker')
      await rejects(
        t.run(sandbox, t.commands.flood(1, marker), { signal: AbortSignal.abort() }),
        'aborted',
        'runCommand',
      )
      await rejects(
        sandbox.spawn({ ...t.commands.flood(1, marker), signal: AbortSignal.abort() }),
        'aborted',
        'spawn',
      )
      await t.run(sandbox, t.commands.exit(0))
      equal(await sandbox.files.exists(marker), false, 'the file that the program would have made exists')
    },
  },
  {
    id: 'abort-command',
    name: 'Cancelling a running command rejects with aborted',
    async run(t) {
      const controller = new AbortController()
      const reason = new Error('changed my mind')
      const error = await rejects(
        t.run(await t.sandbox(), t.commands.wait(), {
          signal: controller.signal,
          onStdout: () => controller.abort(reason),
        }),
        'aborted',
        'runCommand',
      )
      ok(error.cause === reason, 'The signal’s reason is not the error’s cause')
    },
  },
  {
    id: 'abort-kills-tree',
    name: 'Cancelling a running command kills it and everything it started',
    async run(t) {
      const sandbox = await t.sandbox()
      const marker = t.unique('tree')
      const controller = new AbortController()
      const started = Promise.withResolvers<void>()
      const running = t.run(sandbox, t.commands.tree(marker), {
        signal: controller.signal,
        onStdout: () => started.resolve(),
      })
      running.catch(() => {})
      await started.promise
      const after = new EventReader(await t.spawn(sandbox, t.commands.afterTree(marker)))
      await after.until('watching\n')
      controller.abort()
      await rejects(running, 'aborted', 'runCommand')
      await after.until('gone\n')
    },
  },
  {
    id: 'abort-after-end',
    name: 'A signal that fires after the command has ended does nothing',
    async run(t) {
      const sandbox = await t.sandbox()
      const controller = new AbortController()
      equal(
        (await t.run(sandbox, t.commands.print('done'), { signal: controller.signal })).stdout,
        'done',
        'stdout',
      )
      controller.abort()
      equal((await t.run(sandbox, t.commands.print('next'))).stdout, 'next', 'stdout of the next command')
    },
  },
  {
    id: 'abort-partial-output',
    name: 'The error of a cancelled command has the output so far in its details',
    async run(t) {
      const controller = new AbortController()
      const error = await rejects(
        t.run(await t.sandbox(), t.commands.wait(), {
          signal: controller.signal,
          onStdout: () => controller.abort(),
        }),
        'aborted',
        'runCommand',
      )
      equal([error.details.stdout, error.details.stderr], ['ready\n', ''], 'stdout and stderr of the details')
    },
  },
  {
    id: 'abort-spawn',
    name: 'The signal of spawn kills the running program and everything it started',
    async run(t) {
      const sandbox = await t.sandbox()
      for (const detached of [false, true]) {
        const marker = t.unique('tree')
        const controller = new AbortController()
        const { signal } = controller
        const process = await t.spawn(sandbox, t.commands.tree(marker), { signal, detached })
        await new EventReader(process).until('ready\n')
        const after = new EventReader(await t.spawn(sandbox, t.commands.afterTree(marker)))
        await after.until('watching\n')
        controller.abort()
        const { exitCode, signal: killedBy } = await process.wait()
        equal([exitCode, killedBy], [137, 'SIGKILL'], `exitCode and signal, detached: ${detached}`)
        await after.until('gone\n')
      }
    },
  },
  {
    id: 'abort-spawn-after-end',
    name: 'A signal of spawn that fires after the end of the program changes nothing',
    async run(t) {
      const sandbox = await t.sandbox()
      const controller = new AbortController()
      const process = await t.spawn(sandbox, t.commands.exit(3), { signal: controller.signal })
      equal((await process.wait()).exitCode, 3, 'exitCode')
      controller.abort()
      const { exitCode, signal } = await process.wait()
      equal([exitCode, signal], [3, undefined], 'exitCode and signal of the second wait()')
      equal((await t.run(sandbox, t.commands.print('on'))).stdout, 'on', 'stdout of the next command')
    },
  },
  {
    id: 'abort-wait',
    name: 'Cancelling wait() rejects with aborted, and the process keeps running',
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.wait())
      const controller = new AbortController()
      const waiting = process.wait({ signal: controller.signal })
      waiting.catch(() => {})
      controller.abort()
      await rejects(waiting, 'aborted', 'wait()')
      const exit = process.wait({ collect: false, signal: controller.signal })
      await rejects(exit, 'aborted', 'wait({ collect: false })')
      equal((await process.status()).running, true, 'running')
    },
  },
  {
    id: 'abort-write',
    name: 'A write that is cancelled while its source has stalled rejects with aborted and leaves the old content',
    async run(t) {
      const sandbox = await t.sandbox()
      const path = t.unique('file')
      await sandbox.files.writeFile(path, 'old')
      const controller = new AbortController()
      const stalled = Promise.withResolvers<void>()
      async function* source() {
        yield 'new, but '
        stalled.resolve()
        await new Promise(() => {})
      }
      const writing = sandbox.files.writeFile(path, source(), { signal: controller.signal })
      writing.catch(() => {})
      await stalled.promise
      controller.abort()
      await rejects(writing, 'aborted', 'writeFile')
      equal(await sandbox.files.readFile(path, 'utf8'), 'old', 'content')
    },
  },
  {
    id: 'abort-every-call',
    name: 'No call of a sandbox or a provider starts if its signal has fired',
    async run(t) {
      const sandbox = await t.sandbox()
      const { provider } = t
      const path = t.unique('file')
      await sandbox.files.writeFile(path, 'kept')
      const options = { signal: AbortSignal.abort() }
      const calls: Record<string, () => Promise<unknown>> = {
        'provider.create': () => provider.create(options),
        'provider.get': () => provider.get(sandbox.id, options),
        'provider.list': () => provider.list(options),
        'provider.destroy': () => provider.destroy(sandbox.id, options),
        'provider.healthCheck': () => provider.healthCheck(options),
        status: () => sandbox.status(options),
        info: () => sandbox.info(options),
        destroy: () => sandbox.destroy(options),
        'files.readFile': () => sandbox.files.readFile(path, options),
        'files.readStream': () => sandbox.files.readStream(path, options),
        'files.writeFile': () => sandbox.files.writeFile(path, 'changed', options),
        'files.appendFile': () => sandbox.files.appendFile(path, 'changed', options),
        'files.readdir': () => sandbox.files.readdir('.', options),
        'files.list': () => sandbox.files.list('.', options),
        'files.stat': () => sandbox.files.stat(path, options),
        'files.lstat': () => sandbox.files.lstat(path, options),
        'files.exists': () => sandbox.files.exists(path, options),
        'files.mkdir': () => sandbox.files.mkdir(`${path}-folder`, options),
        'files.rename': () => sandbox.files.rename(path, `${path}-moved`, options),
        'files.rm': () => sandbox.files.rm(path, options),
        'files.chmod': () => sandbox.files.chmod(path, 0o600, options),
        'files.symlink': () => sandbox.files.symlink(path, `${path}-link`, options),
        'files.readlink': () => sandbox.files.readlink(path, options),
      }
      const { capabilities } = sandbox
      if (capabilities.reattach) calls.listProcesses = () => sandbox.listProcesses(options)
      if (capabilities.ports) calls.getEndpoint = () => sandbox.getEndpoint(8080, options)
      if (capabilities.stop) calls.stop = () => sandbox.stop(options)
      if (capabilities.pause) calls.pause = () => sandbox.pause(options)
      if (capabilities.snapshot) calls.snapshot = () => sandbox.snapshot(options)
      if (capabilities.fork) calls.fork = () => sandbox.fork(options)
      if (capabilities.shell) calls.openShell = () => sandbox.openShell(options)
      if (capabilities.terminal) calls.openTerminal = () => sandbox.openTerminal(options)
      if (capabilities.watch) calls['files.watch'] = () => sandbox.files.watch('.', options)
      for (const [name, call] of Object.entries(calls))
        await rejects(call, 'aborted', `${name} with a signal that has fired`)
      equal(await sandbox.files.readFile(path, 'utf8'), 'kept', 'content')
      equal(await sandbox.status(), 'running', 'status')
    },
  },
])
