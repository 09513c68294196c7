import type { MemoryProcess } from '../../providers/memory/process.ts'
import type { Task } from '../../providers/memory/program.ts'
import type { World } from '../../providers/memory/shared-state.ts'
import type { RunCommandOptions, SandboxHandle } from '../../spec/index.ts'
import type { BrokenProvider } from './index.ts'
import { brokenShell } from './shell.ts'
import { breakProvider } from './wrap.ts'

/** Broken at ending what a command has started: too little of it, or too much. */
export const brokenKills: BrokenProvider[] = [
  {
    name: 'kill-reaches-program-only',
    what: 'kill() and cancelling end the program, and everything that it started lives on',
    caughtBy: ['kill-tree', 'abort-kills-tree'],
    make: (working, world) => lesserKill(working, world, (task) => task.deliverAlone),
  },
  {
    name: 'kill-reaches-group-only',
    what: 'a program that has left its process group survives kill(), timeouts and cancelling',
    caughtBy: ['kill-session', 'kill-orphan', 'kill-term-orphan', 'timeout-orphan', 'abort-orphan'],
    make: (working, world) => lesserKill(working, world, (task) => task.deliverToGroup),
  },
  {
    name: 'kill-reaches-everyone',
    what: 'kill() of one program kills all programs of the sandbox',
    caughtBy: ['kill-spares-others'],
    make: (working, world) =>
      breakProvider(working, {
        sandbox: (real) => ({
          spawn: async (options) => {
            const process = await real.spawn(options)
            const kill: typeof process.kill = async (signal, call) => {
              const killed = await process.kill(signal, call)
              for (const other of processesOf(world, real)) other.task.deliver(signal ?? 'SIGTERM')
              return killed
            }
            return Object.assign(Object.create(process), { kill })
          },
        }),
      }),
  },
  {
    name: 'end-kills-daemons',
    what: 'what a command has left running is killed when the command ends',
    caughtBy: ['daemon-lives-on'],
    make: (working, world) =>
      breakProvider(working, {
        sandbox: (real) => ({
          runCommand: (async (options: RunCommandOptions) => {
            const before = processesOf(world, real)
            const result = await real.runCommand(options)
            for (const process of processesOf(world, real))
              if (!before.includes(process)) process.task.deliver('SIGKILL')
            return result
          }) as SandboxHandle['runCommand'],
        }),
      }),
  },
  {
    name: 'shell-kill-reaches-group-only',
    what: 'on a shell, a program that has left its process group survives timeouts, cancelling and close()',
    caughtBy: ['shell-timeout-orphan', 'shell-abort-orphan', 'shell-close-orphan'],
    options: { shell: () => 0 },
    make: (working, world) =>
      brokenShell(working, world, ({ current }) => current?.deliverToGroup('SIGKILL')),
  },
  {
    name: 'shell-kill-reaches-older-jobs',
    what: 'on a shell, a timeout ends also what earlier commands have left running',
    caughtBy: ['shell-timeout-orphan', 'shell-abort-orphan'],
    options: { shell: () => 0 },
    make: (working, world) =>
      brokenShell(working, world, ({ all }) => all.forEach((task) => void task.deliver('SIGKILL'))),
  },
]

type Deliver = Task['deliver']

/** Programs whose signals go as far as `reach` does. */
function lesserKill(
  working: Parameters<BrokenProvider['make']>[0],
  world: World,
  reach: (task: Task) => Deliver,
) {
  const lessen = (real: SandboxHandle) => {
    for (const { task } of processesOf(world, real)) task.deliver = reach(task)
  }
  return breakProvider(working, {
    sandbox: (real) => ({
      spawn: async (options) => {
        const process = await real.spawn(options)
        lessen(real)
        return process
      },
      runCommand: ((options: RunCommandOptions) => {
        // Its process is there at the latest when it prints.
        const onStdout = (text: string) => {
          lessen(real)
          options.onStdout?.(text)
        }
        return real.runCommand(options.detached ? options : { ...options, onStdout })
      }) as SandboxHandle['runCommand'],
    }),
  })
}

function processesOf(world: World, { sandboxId }: SandboxHandle): MemoryProcess[] {
  return [...(world.sandboxes.get(sandboxId)?.processes.values() ?? [])]
}
