import { SandboxError } from '../../errors.ts'
import { streamOf } from '../../shared/output/bytes.ts'
import type {
  Environment,
  ProcessEvent,
  ProcessHandle,
  RunCommandOptions,
  SandboxHandle,
  SandboxProvider,
  SpawnOptions,
  WaitOptions,
} from '../../spec/index.ts'
import type { BrokenProvider } from './index.ts'
import { breakProvider } from './wrap.ts'

/** Faults in the options of commands and processes. */
export const brokenCommandOptions: BrokenProvider[] = [
  {
    name: 'merged-afterwards',
    what: "output: 'merged' appends stderr to stdout",
    caughtBy: ['merged-order'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => {
          const runCommand = async ({ output, ...options }: RunCommandOptions) => {
            const result = await real.runCommand(options)
            if (output !== 'merged') return result
            return { ...result, stdout: result.stdout + result.stderr, stderr: '' }
          }
          return { runCommand: runCommand as SandboxHandle['runCommand'] }
        },
      }),
  },
  {
    name: 'merged-ignored',
    what: "spawn ignores output: 'merged'",
    caughtBy: ['merged-spawn'],
    make: (working) => spawning(working, (real, { output: _, ...options }) => real.spawn(options)),
  },
  {
    name: 'streams-in-turn',
    what: 'events of stderr come after those of stdout',
    caughtBy: ['ordered-events'],
    make: (working) =>
      breakProvider(working, {
        process: (real) => ({
          async *output(options) {
            const late: ProcessEvent[] = []
            for await (const event of real.output(options)) {
              if (event.type === 'exit') yield* late
              if (event.type === 'stderr') late.push(event)
              else yield event
            }
          },
        }),
      }),
  },
  {
    name: 'abort-loses-output',
    what: 'the error of a cancelled command lacks the output so far',
    caughtBy: ['abort-partial-output'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          runCommand: ((options: RunCommandOptions) =>
            real.runCommand(options).catch(withoutDetails)) as SandboxHandle['runCommand'],
        }),
      }),
  },
  {
    name: 'shell-abort-loses-output',
    what: 'the error of a cancelled shell command lacks the output so far',
    caughtBy: ['shell-abort-output'],
    options: {
      shell: async (_line, _state, { write, sleep }) => {
        write('x\n')
        await sleep(1_000_000)
        return 0
      },
    },
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          openShell: async (options) => {
            const shell = await real.openShell(options)
            const exec: typeof shell.exec = (...args) => shell.exec(...args).catch(withoutDetails)
            return { name: shell.name, cwd: shell.cwd, exec, close: () => shell.close() }
          },
        }),
      }),
  },
  {
    name: 'spawn-signal-ends-start-only',
    what: 'the signal of spawn does not end the running program',
    caughtBy: ['abort-spawn'],
    make: (working) => spawning(working, (real, { signal: _, ...options }) => real.spawn(options)),
  },
  {
    name: 'spawn-signal-rewrites-exit',
    what: 'a signal that fires after the end of a program makes it look killed',
    caughtBy: ['abort-spawn-after-end'],
    make: (working) =>
      spawning(working, async (real, options) => {
        const process = await real.spawn(options)
        const wait = async (given: WaitOptions) => {
          const result = await process.wait(given)
          return options.signal?.aborted ? { ...result, exitCode: 137, signal: 'SIGKILL' } : result
        }
        return Object.assign(Object.create(process), { wait }) as ProcessHandle
      }),
  },
  {
    name: 'spawn-characters-split',
    what: 'onStdout of spawn gets each chunk decoded separately',
    caughtBy: ['spawn-listeners'],
    make: (working) =>
      spawning(working, async (real, { onStdout, ...options }) => {
        const process = await real.spawn(options)
        const told = (async () => {
          for await (const event of process.output())
            if (event.type === 'stdout') onStdout?.(new TextDecoder().decode(event.data))
        })()
        told.catch(() => {})
        const wait = async (given: WaitOptions) => {
          await told
          return process.wait(given)
        }
        return Object.assign(Object.create(process), { wait }) as ProcessHandle
      }),
  },
  {
    name: 'spawn-listener-errors-hidden',
    what: 'an error of a listener of spawn is swallowed',
    caughtBy: ['spawn-listener-throws'],
    make: (working) =>
      spawning(working, (real, { onStdout, ...options }) =>
        real.spawn({
          ...options,
          onStdout: (text) => {
            try {
              onStdout?.(text)
            } catch {}
          },
        }),
      ),
  },
  {
    name: 'streams-start-at-first-read',
    what: 'stderr() is dropped while stdout() is read',
    caughtBy: ['streams-one-after-the-other'],
    make: (working) =>
      breakProvider(working, {
        process: (real) => {
          const only = (type: 'stdout' | 'stderr') =>
            streamOf(
              (async function* () {
                for await (const event of real.output()) if (event.type === type) yield event.data
              })(),
            )
          return { stdout: () => only('stdout'), stderr: () => only('stderr') }
        },
      }),
  },
  {
    name: 'unopened-stream-dropped',
    what: 'while only stdout() is read, the program does not wait, and stderr() is dropped beyond 4 MiB',
    caughtBy: ['stream-opened-late'],
    make: (working) =>
      breakProvider(working, {
        process: (real) => {
          const stderr: Uint8Array[] = []
          let kept = 0
          const stdout = async function* () {
            for await (const event of real.output()) {
              if (event.type === 'stdout') yield event.data
              if (event.type !== 'stderr' || kept > 4 * 1024 * 1024) continue
              stderr.push(event.data)
              kept += event.data.byteLength
            }
          }
          return { stdout: () => streamOf(stdout()), stderr: () => streamOf(ReadableStream.from(stderr)) }
        },
      }),
  },
  {
    name: 'wait-always-collects',
    what: 'wait({ collect: false }) returns output',
    caughtBy: ['wait-without-output'],
    make: (working) =>
      breakProvider(working, {
        process: (real) => ({
          wait: (({ collect: _, ...options }: WaitOptions = {}) =>
            real.wait(options)) as ProcessHandle['wait'],
        }),
      }),
  },
  {
    name: 'undefined-as-text',
    what: 'an undefined variable is the text “undefined”',
    caughtBy: ['env-undefined', 'env-create-undefined'],
    make: (working) =>
      breakProvider(working, {
        provider: (real) => ({
          create: (options = {}) => real.create({ ...options, envVars: asText(options.envVars) }),
        }),
        sandbox: (real) => ({
          runCommand: ((options: RunCommandOptions) =>
            real.runCommand({ ...options, env: asText(options.env) })) as SandboxHandle['runCommand'],
        }),
      }),
  },
]

function spawning(
  working: SandboxProvider,
  spawn: (real: SandboxHandle, options: SpawnOptions) => Promise<ProcessHandle>,
) {
  return breakProvider(working, { sandbox: (real) => ({ spawn: (options) => spawn(real, options) }) })
}

function withoutDetails(error: unknown): never {
  if (!SandboxError.is(error)) throw error
  throw new SandboxError(error.code, error.message, { cause: error.cause })
}

function asText(env: Environment | undefined): Record<string, string> {
  return Object.fromEntries(Object.entries(env ?? {}).map(([name, value]) => [name, String(value)]))
}
