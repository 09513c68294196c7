import { SandboxError } from '../../errors.ts'
import type { RunCommandOptions, SandboxHandle } from '../../spec/index.ts'
import type { BrokenProvider } from './index.ts'
import { breakProvider } from './wrap.ts'

const isObject = (options: unknown) => typeof options === 'object' && options !== null

/** Faults in the answers to wrong calls, and in finding a program again. */
export const brokenInput: BrokenProvider[] = [
  {
    name: 'options-of-any-kind',
    what: 'options that are no object count as none',
    caughtBy: ['bad-options'],
    make: (working) =>
      breakProvider(working, {
        provider: (real) => ({
          create: (options) => real.create(isObject(options) ? options : {}),
          list: (options) => real.list(isObject(options) ? options : {}),
        }),
      }),
  },
  {
    name: 'status-of-any-name',
    what: 'list() with an unknown status returns nothing',
    caughtBy: ['bad-status'],
    make: (working) =>
      breakProvider(working, {
        provider: (real) => ({
          list: async (options) => {
            const all = await real.list({ ...options, status: undefined })
            return Object.assign(
              all.filter(({ status }) => options?.status === undefined || options.status.includes(status)),
              { nextCursor: all.nextCursor },
            )
          },
        }),
      }),
  },
  {
    name: 'line-hint-lost',
    what: 'a line given as the name of a program gets the hint to install that program',
    caughtBy: ['line-as-program'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          runCommand: ((options: RunCommandOptions) =>
            real.runCommand(options).catch((error) => {
              throw SandboxError.is(error, 'command_not_found')
                ? new SandboxError(error.code, error.message)
                : error
            })) as SandboxHandle['runCommand'],
        }),
      }),
  },
  {
    name: 'processes-of-one-handle',
    what: 'only the handle that started a process finds it again',
    caughtBy: ['get-process'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => {
          const own = new Set<string>()
          return {
            spawn: async (options) => {
              const process = await real.spawn(options)
              own.add(process.execId)
              return process
            },
            getProcess: async (execId, options) => {
              if (own.has(execId)) return real.getProcess(execId, options)
              throw new SandboxError('not_found', `There is no process ${execId}.`)
            },
          }
        },
      }),
  },
]
