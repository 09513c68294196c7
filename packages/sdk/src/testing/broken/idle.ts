import type { CommandResult, RunCommandOptions, SandboxHandle } from '../../spec/index.ts'
import type { BrokenProvider } from './index.ts'
import { breakProvider } from './wrap.ts'

/** Faults where nothing should happen: the behaviours that a provider passes which does nothing. */
export const brokenIdle: BrokenProvider[] = [
  {
    name: 'success-is-one',
    what: 'every program is reported as failed',
    caughtBy: ['exit-0'],
    make: (working) => changing(working, (result) => ({ ...result, exitCode: result.exitCode || 1 })),
  },
  {
    name: 'newline-added',
    what: 'stdout always ends with a newline',
    caughtBy: ['no-output', 'stdout-exact'],
    make: (working) =>
      changing(working, (result) => ({ ...result, stdout: result.stdout.replace(/\n?$/, '\n') })),
  },
  {
    name: 'limit-is-timeout',
    what: 'every command with a time limit is reported as timed out',
    caughtBy: ['timeout-not-reached'],
    make: (working) =>
      changing(working, (result, { timeoutMs }) => ({ ...result, timedOut: timeoutMs !== undefined })),
  },
  {
    name: 'empty-input-waits',
    what: 'a program with an empty input never sees its end',
    caughtBy: ['stdin-empty-text'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          runCommand: (async ({ stdin, ...options }: RunCommandOptions) => {
            if (stdin !== '') return real.runCommand({ stdin, ...options })
            return (await real.spawn({ ...options, stdin: 'pipe' })).wait()
          }) as SandboxHandle['runCommand'],
        }),
      }),
  },
  {
    name: 'kill-always-works',
    what: 'kill() of an ended program returns true',
    caughtBy: ['kill-after-end'],
    make: (working) =>
      breakProvider(working, {
        process: (real) => ({ kill: async (...args) => real.kill(...args).then(() => true) }),
      }),
  },
  {
    name: 'empty-file-skipped',
    what: 'an empty file is not written',
    caughtBy: ['empty-file'],
    make: (working) =>
      breakProvider(working, {
        files: (real) => ({
          writeFile: async (path, data, options) =>
            data === '' ? undefined : real.writeFile(path, data, options),
        }),
      }),
  },
  {
    name: 'writes-this-machine',
    what: 'an absolute path is written on this machine, too',
    caughtBy: ['write-outside'],
    make: (working) =>
      breakProvider(working, {
        files: (real) => ({
          writeFile: async (path, data, options) => {
            const { existsSync, writeFileSync } = await import('node:fs')
            if (path.startsWith('/') && typeof data === 'string' && existsSync(path))
              writeFileSync(path, data)
            return real.writeFile(path, data, options)
          },
        }),
      }),
  },
  {
    name: 'facts-invented',
    what: 'info() invents a name and a time',
    caughtBy: ['info'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          info: async (options) => ({
            ...(await real.info(options)),
            name: 'sandbox',
            createdAt: new Date(Number.NaN),
          }),
        }),
      }),
  },
  {
    name: 'dispose-of-nothing-throws',
    what: 'leaving an await using block fails if the sandbox is gone',
    caughtBy: ['dispose-after-destroy'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          [Symbol.asyncDispose]: async () => {
            await real.files.exists('.')
            await real[Symbol.asyncDispose]()
          },
        }),
      }),
  },
]

function changing(
  working: Parameters<BrokenProvider['make']>[0],
  change: (result: CommandResult, options: RunCommandOptions) => CommandResult,
) {
  return breakProvider(working, {
    sandbox: (real) => ({
      runCommand: (async (options: RunCommandOptions) =>
        change(await real.runCommand(options), options)) as SandboxHandle['runCommand'],
    }),
  })
}
