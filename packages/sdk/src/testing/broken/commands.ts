import type { CommandResult, RunCommandOptions, SandboxHandle } from '../../spec/index.ts'
import type { BrokenProvider } from './index.ts'
import { breakProvider } from './wrap.ts'

export const brokenCommands: BrokenProvider[] = [
  {
    name: 'exit-code-lost',
    what: 'every program is reported as successful',
    caughtBy: ['exit-1', 'exit-3', 'exit-127', 'exit-255'],
    make: (working) =>
      breakProvider(working, { sandbox: (real) => result(real, (value) => ({ ...value, exitCode: 0 })) }),
  },
  {
    name: 'env-dropped',
    what: 'env never reaches the program',
    caughtBy: ['env-added', 'env-unusual-values', 'env-overrides'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => {
          const runCommand = (options: RunCommandOptions) => real.runCommand({ ...options, env: {} })
          return { runCommand: runCommand as SandboxHandle['runCommand'] }
        },
      }),
  },
  {
    name: 'stderr-merged',
    what: 'stderr is silently mixed into stdout',
    caughtBy: ['stderr-apart', 'both-streams'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) =>
          result(real, (value) => ({ ...value, stdout: value.stdout + value.stderr, stderr: '' })),
      }),
  },
  {
    name: 'args-joined',
    what: 'arguments are joined with spaces and split again',
    caughtBy: ['args-exact', 'args-one-by-one'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => {
          const runCommand = (options: RunCommandOptions) =>
            real.runCommand({ ...options, args: (options.args ?? []).join(' ').split(/\s+/).filter(Boolean) })
          return { runCommand: runCommand as SandboxHandle['runCommand'] }
        },
      }),
  },
  {
    name: 'truncation-unsaid',
    what: 'output is cut, but the result does not report it',
    caughtBy: ['truncated', 'truncated-small'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => result(real, (value) => ({ ...value, truncated: false })),
      }),
  },
  {
    name: 'signal-lost',
    what: 'a killed program looks like one that failed by itself',
    caughtBy: ['dies-of-sigterm', 'dies-of-sigkill'],
    make: (working) =>
      breakProvider(working, { sandbox: (real) => result(real, ({ signal: _, ...value }) => value) }),
  },
  {
    name: 'characters-split',
    what: 'each chunk of output is decoded separately',
    caughtBy: ['split-character-result'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => {
          const runCommand = async (options: RunCommandOptions) => {
            const { onStdout, onStderr, maxOutputBytes: _, signal, ...rest } = options
            if (!onStdout || signal || options.detached) return real.runCommand(options)
            const process = await real.spawn(rest)
            for await (const event of process.output()) {
              if (event.type === 'stdout') onStdout(new TextDecoder().decode(event.data))
              else if (event.type === 'stderr') onStderr?.(new TextDecoder().decode(event.data))
            }
            return process.wait()
          }
          return { runCommand: runCommand as SandboxHandle['runCommand'] }
        },
      }),
  },
  {
    name: 'output-held-back',
    what: 'onStdout is called only when the program has ended',
    caughtBy: ['stream-before-end'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => {
          const runCommand = async (options: RunCommandOptions) => {
            const { onStdout, ...rest } = options
            const value = await real.runCommand(rest)
            onStdout?.(value.stdout)
            return value
          }
          return { runCommand: runCommand as SandboxHandle['runCommand'] }
        },
      }),
  },
  {
    name: 'abort-ignored',
    what: 'a cancelled command keeps running',
    caughtBy: ['abort-command', 'abort-kills-tree', 'abort-before'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => {
          const runCommand = ({ signal: _, ...options }: RunCommandOptions) => real.runCommand(options)
          return { runCommand: runCommand as SandboxHandle['runCommand'] }
        },
      }),
  },
  {
    name: 'timeout-kills-parent-only',
    what: 'a timeout kills only the program itself, not its descendants',
    caughtBy: ['timeout-tree'],
    make: (working, sharedState) =>
      breakProvider(working, {
        sandbox: (real) => ({
          spawn: async (options) => {
            const process = await real.spawn(options)
            const { program } = sharedState.sandboxes.get(real.sandboxId)!.processes.get(process.execId)!
            if (options.timeoutMs !== undefined) program.deliver = program.deliverAlone
            return process
          },
        }),
      }),
  },
  {
    name: 'missing-program-is-127',
    what: 'a missing program is a result with exit code 127',
    caughtBy: ['missing-program', 'missing-program-path'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => {
          const runCommand = (options: RunCommandOptions) =>
            real.runCommand(options).catch((error) => {
              if (error?.code !== 'command_not_found') throw error
              return {
                exitCode: 127,
                stdout: '',
                stderr: 'not found',
                timedOut: false,
                truncated: false,
                durationMs: 0,
              }
            })
          return { runCommand: runCommand as SandboxHandle['runCommand'] }
        },
      }),
  },
]

function result(
  real: SandboxHandle,
  change: (value: CommandResult) => CommandResult,
): Partial<SandboxHandle> {
  const runCommand = async (options: RunCommandOptions) =>
    options.detached ? real.runCommand(options) : change(await real.runCommand(options))
  return { runCommand: runCommand as SandboxHandle['runCommand'] }
}
