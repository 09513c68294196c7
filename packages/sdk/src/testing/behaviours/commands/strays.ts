import { quoteArgs } from '../../../shared/quote.ts'
import { equal, excludes, ok, rejects } from '../../assert.ts'
import type { Command } from '../../command-kit.ts'
import { EventReader } from '../../events.ts'
import type { Trial } from '../../trial.ts'
import { type AnySandbox, group } from '../../types.ts'

/**
 * “Everything it started” includes programs that have left the process group, the session and the parent. A kill or a
 * timeout ends them; a normal exit does not.
 */
export const strays = group('everything it started', [
  {
    id: 'kill-session',
    name: 'kill(SIGKILL) reaches a program in its own session',
    run: (t) => killed(t, t.unique('tree'), 'group'),
  },
  {
    id: 'kill-orphan',
    name: 'kill(SIGKILL) reaches a daemon: a program in its own session whose parent has ended',
    run: (t) => killed(t, t.unique('tree'), 'parent'),
  },
  {
    id: 'kill-term-orphan',
    name: 'kill() sends SIGTERM also to a daemon that the program started',
    async run(t) {
      const sandbox = await t.sandbox()
      const marker = t.unique('tree')
      const process = await t.spawn(sandbox, t.commands.tree(marker, { leaves: 'parent', heeds: true }))
      await new EventReader(process).until('ready\n')
      const after = await watch(t, sandbox, marker)
      equal(await process.kill(), true, 'kill()')
      await after.until('gone\n')
    },
  },
  {
    id: 'timeout-orphan',
    name: 'A timeout kills a daemon that the command started, also if it ignores SIGTERM',
    async run(t) {
      const sandbox = await t.sandbox()
      await overTime(t, sandbox, (command, timeoutMs, onStdout) =>
        t.run(sandbox, command, { timeoutMs, onStdout }),
      )
    },
  },
  {
    id: 'abort-orphan',
    name: 'Cancelling a running command kills a daemon that it started',
    async run(t) {
      const sandbox = await t.sandbox()
      const marker = t.unique('tree')
      const controller = new AbortController()
      const ready = Promise.withResolvers<void>()
      const running = t.run(sandbox, t.commands.tree(marker, { leaves: 'parent' }), {
        signal: controller.signal,
        onStdout: () => ready.resolve(),
      })
      running.catch(ready.reject)
      await ready.promise
      const after = await watch(t, sandbox, marker)
      controller.abort()
      await rejects(running, 'aborted', 'runCommand')
      await after.until('gone\n')
    },
  },
  {
    id: 'kill-spares-others',
    name: 'Killing one program does not affect programs that another one started',
    async run(t) {
      const sandbox = await t.sandbox()
      const markers = [t.unique('tree'), t.unique('tree')] as const
      const start = async (marker: string) => {
        const process = await t.spawn(sandbox, t.commands.tree(marker, { leaves: 'parent' }))
        await new EventReader(process).until('ready\n')
        return { process, after: await watch(t, sandbox, marker) }
      }
      const [first, second] = [await start(markers[0]), await start(markers[1])]
      await first.process.kill('SIGKILL')
      await first.after.until('gone\n')
      equal((await second.process.status()).running, true, 'running of the other one')
      await still(t, sandbox, markers[1])
      await second.process.kill('SIGKILL')
      await second.after.until('gone\n')
    },
  },
  {
    id: 'daemon-lives-on',
    name: 'A daemon of a command that ends by itself keeps running, also after the command’s time limit',
    async run(t) {
      const sandbox = await t.create()
      const marker = t.unique('daemon')
      const result = await t.run(sandbox, t.commands.daemon(marker), { timeoutMs: 60_000 })
      equal([result.exitCode, result.stdout, result.timedOut], [0, 'started\n', false], 'the result')
      await still(t, sandbox, marker)
    },
  },
  {
    id: 'shell-timeout-orphan',
    name: 'A timeout on a shell kills a daemon of the command, and none of an earlier command',
    needs: ['shell'],
    async run(t) {
      const { sandbox, shell, older } = await shellWithDaemon(t)
      await overTime(t, sandbox, (command, timeoutMs, onOutput) =>
        shell.exec(line(command), { timeoutMs, onOutput }),
      )
      await still(t, sandbox, older)
      equal((await shell.exec('echo "$KEPT"')).output, 'yes\n', 'variable of the shell')
    },
  },
  {
    id: 'shell-abort-orphan',
    name: 'Cancelling a command on a shell kills its daemon, and none of an earlier command',
    needs: ['shell'],
    async run(t) {
      const { sandbox, shell, older } = await shellWithDaemon(t)
      const marker = t.unique('tree')
      const controller = new AbortController()
      const ready = Promise.withResolvers<void>()
      const running = shell.exec(line(t.commands.tree(marker, { leaves: 'parent' })), {
        signal: controller.signal,
        onOutput: () => ready.resolve(),
      })
      running.catch(ready.reject)
      await ready.promise
      const after = await watch(t, sandbox, marker)
      controller.abort()
      await rejects(running, 'aborted', 'exec')
      await after.until('gone\n')
      await still(t, sandbox, older)
      equal((await shell.exec('echo "$KEPT"')).output, 'yes\n', 'variable of the shell')
    },
  },
  {
    id: 'shell-close-orphan',
    name: 'close() of a shell ends a daemon of the running command',
    needs: ['shell'],
    async run(t) {
      const { sandbox, shell } = await shellWithDaemon(t)
      const marker = t.unique('tree')
      const ready = Promise.withResolvers<void>()
      const running = shell.exec(line(t.commands.tree(marker, { leaves: 'parent' })), {
        onOutput: () => ready.resolve(),
      })
      running.catch(ready.reject)
      await ready.promise
      const after = await watch(t, sandbox, marker)
      equal(await shell.close(), true, 'close()')
      await after.until('gone\n')
      await running.catch(() => {})
    },
  },
])

async function killed(t: Trial, marker: string, leaves: 'group' | 'parent'): Promise<void> {
  const sandbox = await t.sandbox()
  const process = await t.spawn(sandbox, t.commands.tree(marker, { leaves }))
  await new EventReader(process).until('ready\n')
  const after = await watch(t, sandbox, marker)
  equal(await process.kill('SIGKILL'), true, 'kill()')
  await after.until('gone\n')
}

/**
 * Runs a tree with a daemon into its time limit; afterwards the daemon must be gone. On a slow machine the limit may
 * pass before the tree is ready: then retry with more time.
 */
async function overTime(
  t: Trial,
  sandbox: AnySandbox,
  start: (command: Command, timeoutMs: number, onReady: () => void) => Promise<{ timedOut: boolean }>,
): Promise<void> {
  for (const factor of [4, 20, 60]) {
    const marker = t.unique('tree')
    const ready = Promise.withResolvers<true>()
    const command = t.commands.tree(marker, { leaves: 'parent' })
    const running = start(command, t.limits.commandTimeoutMs * factor, () => ready.resolve(true))
    const over = running.then(() => undefined)
    const watching = Promise.race([ready.promise, over]).then((stands) => stands && watch(t, sandbox, marker))
    // If the tree ended before the watcher started, the watcher waits until it is killed.
    watching.catch(() => {})
    const after = await Promise.race([watching, over])
    equal((await running).timedOut, true, 'timedOut')
    if (after) return after.until('gone\n')
  }
  throw new Error('The tree was not there before its time was over, three times.')
}

/** A reader that receives `gone` when the last program of that tree has ended. */
async function watch(t: Trial, sandbox: AnySandbox, marker: string): Promise<EventReader> {
  const reader = new EventReader(await t.spawn(sandbox, t.commands.afterTree(marker)))
  await reader.until('watching\n')
  return reader
}

/** Asserts that the tree runs and is not ending: it still exists after a second program has run completely. */
async function still(t: Trial, sandbox: AnySandbox, marker: string): Promise<void> {
  const process = await t.spawn(sandbox, t.commands.afterTree(marker))
  const reader = new EventReader(process)
  await reader.until('watching\n')
  await t.run(sandbox, t.commands.exit(0))
  ok((await process.status()).running, 'It must keep running, but has ended')
  await process.kill('SIGKILL')
  await reader.exit()
  excludes(reader.stdout, 'gone', 'What the watcher said')
}

/** A shell with a variable, whose first command has started a daemon. */
async function shellWithDaemon(t: Trial) {
  // A separate sandbox, because only its end ends the daemon.
  const sandbox = await t.create()
  const shell = await sandbox.openShell()
  t.later(() => shell.close())
  const older = t.unique('daemon')
  equal((await shell.exec(`KEPT=yes; ${line(t.commands.daemon(older))}`)).output, 'started\n', 'output')
  return { sandbox, shell, older }
}

const line = ({ cmd, args }: Command): string => quoteArgs([cmd, ...args])
