import type { Program } from '../../providers/memory/machine/program.ts'
import type { MemoryProcess } from '../../providers/memory/process.ts'
import type { SharedState } from '../../providers/memory/shared-state.ts'
import type { RunCommandOptions, SandboxHandle } from '../../spec/index.ts'
import type { BrokenProvider } from './index.ts'
import { brokenShell } from './shell.ts'
import { breakProvider } from './wrap.ts'

/** Faults in ending a command's descendants: too few or too many are killed. */
export const brokenKills: BrokenProvider[] = [
  {
    name: 'kill-reaches-program-only',
    what: 'kill() and cancelling end the program, but not its descendants',
    caughtBy: ['kill-tree', 'abort-kills-tree'],
    make: (working, sharedState) => lesserKill(working, sharedState, (program) => program.deliverAlone),
  },
  {
    name: 'kill-reaches-group-only',
    what: 'a program that has left its process group survives kill(), timeouts and cancelling',
    caughtBy: ['kill-session', 'kill-orphan', 'kill-term-orphan', 'timeout-orphan', 'abort-orphan'],
    make: (working, sharedState) => lesserKill(working, sharedState, (program) => program.deliverToGroup),
  },
  {
    name: 'kill-reaches-everyone',
    what: 'kill() of one program kills all programs of the sandbox',
    caughtBy: ['kill-spares-others'],
    make: (working, sharedState) =>
      breakProvider(working, {
        sandbox: (real) => ({
          spawn: async (options) => {
            const process = await real.spawn(options)
            const kill: typeof process.kill = async (signal, call) => {
              const killed = await process.kill(signal, call)
              for (const other of processesOf(sharedState, real)) other.program.deliver(signal ?? 'SIGTERM')
              return killed
            }
            return Object.assign(Object.create(process), { kill })
          },
        }),
      }),
  },
  {
    name: 'end-kills-daemons',
    what: 'background programs of a command are killed when the command ends',
    caughtBy: ['daemon-lives-on'],
    make: (working, sharedState) =>
      breakProvider(working, {
        sandbox: (real) => ({
          runCommand: (async (options: RunCommandOptions) => {
            const before = processesOf(sharedState, real)
            const result = await real.runCommand(options)
            for (const process of processesOf(sharedState, real))
              if (!before.includes(process)) process.program.deliver('SIGKILL')
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
    make: (working, sharedState) =>
      brokenShell(working, sharedState, ({ current }) => current?.deliverToGroup('SIGKILL')),
  },
  {
    name: 'shell-kill-reaches-older-jobs',
    what: 'on a shell, a timeout also ends programs of earlier commands',
    caughtBy: ['shell-timeout-orphan', 'shell-abort-orphan'],
    options: { shell: () => 0 },
    make: (working, sharedState) =>
      brokenShell(working, sharedState, ({ all }) =>
        all.forEach((program) => void program.deliver('SIGKILL')),
      ),
  },
]

type Deliver = Program['deliver']

/** Programs whose signals only go as far as `reach`. */
function lesserKill(
  working: Parameters<BrokenProvider['make']>[0],
  sharedState: SharedState,
  reach: (program: Program) => Deliver,
) {
  const lessen = (real: SandboxHandle) => {
    for (const { program } of processesOf(sharedState, real)) program.deliver = reach(program)
  }
  return breakProvider(working, {
    sandbox: (real) => ({
      spawn: async (options) => {
        const process = await real.spawn(options)
        lessen(real)
        return process
      },
      runCommand: ((options: RunCommandOptions) => {
        // The process exists at the latest when it prints.
        const onStdout = (text: string) => {
          lessen(real)
          options.onStdout?.(text)
        }
        return real.runCommand(options.detached ? options : { ...options, onStdout })
      }) as SandboxHandle['runCommand'],
    }),
  })
}

function processesOf(sharedState: SharedState, { sandboxId }: SandboxHandle): MemoryProcess[] {
  return [...(sharedState.sandboxes.get(sandboxId)?.processes.values() ?? [])]
}
