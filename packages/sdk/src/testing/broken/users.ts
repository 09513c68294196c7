import { SandboxError } from '../../errors.ts'
import type { RunCommandOptions, SandboxHandle } from '../../spec/index.ts'
import type { BrokenProvider } from './index.ts'
import { breakProvider } from './wrap.ts'

/** The folder for temporary files of a sandbox in `/tmp`, forgotten or not. */
const tmp = '/tmp/kit-writable'

const refused = (path: string) => new SandboxError('permission_denied', `${path}: Permission denied`)

export const brokenUsers: BrokenProvider[] = [
  {
    name: 'writable-path-is-not',
    what: 'writablePaths names a folder that the user may not write to',
    caughtBy: ['writable-paths'],
    make: (working) =>
      breakProvider(working, {
        sandbox: () => ({ writablePaths: ['/workspace', '/srv'] }),
        files: (real) => ({
          writeFile: async (path, data, options) => {
            if (path.startsWith('/srv/')) throw refused(path)
            return real.writeFile(path, data, options)
          },
        }),
      }),
  },
  {
    name: 'stop-empties-tmp',
    what: '/tmp is empty after a start',
    caughtBy: ['writable-kept-stop'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          writablePaths: ['/workspace', '/tmp'],
          start: async (options) => {
            await real.start(options)
            await real.files.rm(tmp, { recursive: true, force: true })
          },
        }),
      }),
  },
  {
    name: 'snapshot-without-tmp',
    what: 'a snapshot does not have the files in /tmp',
    caughtBy: ['writable-kept-snapshot'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          writablePaths: ['/workspace', '/tmp'],
          snapshot: async (options) => {
            await real.files.rm(tmp, { recursive: true, force: true })
            return real.snapshot(options)
          },
        }),
      }),
  },
  {
    name: 'fork-without-tmp',
    what: 'a fork does not have the files in /tmp',
    caughtBy: ['writable-kept-fork'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          writablePaths: ['/workspace', '/tmp'],
          fork: async (options) => {
            await real.files.rm(tmp, { recursive: true, force: true })
            return real.fork(options)
          },
        }),
      }),
  },
  {
    name: 'hint-for-another-path',
    what: 'the hint of permission_denied is the same for every path',
    caughtBy: ['permission-hint'],
    make: (working) =>
      breakProvider(working, {
        sandbox: () => ({ writablePaths: ['/workspace', '/tmp'] }),
        files: (real) => ({
          writeFile: async (path, data, options) => {
            if (path.startsWith('/usr/')) throw refused(path)
            return real.writeFile(path, data, options)
          },
        }),
      }),
  },
  {
    name: 'writable-paths-lost',
    what: 'the provider knows the writable folders and does not tell',
    caughtBy: ['writable-paths'],
    make: (working) => breakProvider(working, { sandbox: () => ({ writablePaths: [] }) }),
  },
  {
    name: 'root-is-a-user',
    what: 'create() accepts `user: root`, and commands run as another user',
    caughtBy: ['user-root'],
    options: { createOptions: ['user'] },
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          runCommand: (async (options: RunCommandOptions) => {
            const result = await real.runCommand(options)
            return /user-id|^sh$/.test(options.cmd) ? { ...result, stdout: '1000\n' } : result
          }) as SandboxHandle['runCommand'],
        }),
      }),
  },
  {
    name: 'root-cannot-write',
    what: 'with `user: root`, files outside of the working directory cannot be written',
    caughtBy: ['user-root'],
    options: { createOptions: ['user'] },
    make: (working) =>
      breakProvider(working, {
        files: (real) => ({
          writeFile: async (path, data, options) => {
            if (path.startsWith('/usr/')) throw refused(path)
            return real.writeFile(path, data, options)
          },
        }),
      }),
  },
]
