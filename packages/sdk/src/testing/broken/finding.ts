import { override } from '../../shared/override.ts'
import type { SandboxHandle } from '../../spec/index.ts'
import type { BrokenProvider } from './index.ts'
import { breakProvider } from './wrap.ts'

type Files = SandboxHandle['files']

/** Faults in finding sandboxes, ports and parts of files. */
export const brokenFinding: BrokenProvider[] = [
  {
    name: 'null-for-any-error',
    what: 'a file that cannot be read counts as missing',
    caughtBy: ['missing-null-only'],
    make: (working) =>
      breakProvider(working, {
        files: (real) => ({
          readFileOrNull: ((path: string, options: object) =>
            real.readFile(path, options).catch(() => null)) as Files['readFileOrNull'],
        }),
      }),
  },
  {
    name: 'missing-file-throws',
    what: 'readFileOrNull rejects for a missing file',
    caughtBy: ['missing-null'],
    make: (working) =>
      breakProvider(working, {
        files: (real) => ({ readFileOrNull: real.readFile as Files['readFileOrNull'] }),
      }),
  },
  {
    name: 'name-begins-with',
    what: 'get({ name }) finds a sandbox whose name begins with the text',
    caughtBy: ['get-by-name'],
    make: (working) =>
      breakProvider(working, {
        provider: (real) => ({
          get: async (sandbox, options) => {
            if (typeof sandbox !== 'object' || !sandbox?.name) return real.get(sandbox, options)
            const matching = (await real.list()).filter(({ name }) => name?.startsWith(sandbox.name))
            const [found] = matching.sort((one, other) => other.name!.length - one.name!.length)
            return real.get(found?.id ?? sandbox, options)
          },
        }),
      }),
  },
  {
    name: 'get-creates',
    what: 'get({ name }) creates a sandbox that does not exist',
    caughtBy: ['get-by-name-missing'],
    make: (working) =>
      breakProvider(working, {
        provider: (real) => ({
          get: (sandbox, options) =>
            typeof sandbox === 'object' ? real.getOrCreate(sandbox) : real.get(sandbox, options),
        }),
      }),
  },
  {
    name: 'list-handles-wakes',
    what: 'listHandles() starts the sandboxes, and all of them whatever the limit',
    caughtBy: ['list-handles', 'list-handles-asleep', 'list-handles-creating'],
    make: (working) =>
      breakProvider(working, {
        provider: (real) => ({
          listHandles: async ({ labels } = {}) =>
            Promise.all((await real.list({ labels })).map(({ id }) => real.get(id))),
        }),
      }),
  },
  {
    name: 'ports-not-kept',
    what: 'ports are known only to the handle that created the sandbox',
    caughtBy: ['ports-declared'],
    make: (working) =>
      breakProvider(working, {
        provider: (real) => ({
          get: async (sandbox, options) => override(await real.get(sandbox, options), { ports: [] }),
        }),
      }),
  },
  {
    name: 'runtime-ignored',
    what: 'create() ignores the runtime',
    caughtBy: ['runtime', 'runtime-alone'],
    make: (working) =>
      breakProvider(working, {
        provider: (real) => ({
          create: ({ runtime: _, snapshotId, ...options } = {}) =>
            real.create(snapshotId === 'kit-none' ? options : { ...options, snapshotId }),
        }),
      }),
  },
  {
    name: 'runtime-another',
    what: 'a sandbox has another runtime than its creator asked for',
    caughtBy: ['runtime-version'],
    make: (working) =>
      breakProvider(working, {
        provider: (real) => ({
          create: ({ runtime, ...options } = {}) =>
            real.create({ ...options, runtime: runtime === 'node24' ? 'node22' : runtime }),
        }),
      }),
  },
  {
    name: 'runtime-of-any-version',
    what: 'a runtime that does not exist is accepted if its name has the form of one',
    caughtBy: ['runtime'],
    make: (working) =>
      breakProvider(working, {
        provider: (real) => ({
          create: ({ runtime, ...options } = {}) =>
            real.create({ ...options, runtime: runtime === 'node4' ? undefined : runtime }),
        }),
      }),
  },
  {
    name: 'runtimes-lost',
    what: 'the provider has none of the runtimes that its user gave it',
    caughtBy: ['runtime'],
    options: { runtimes: [] },
    make: (working) => working,
  },
  {
    name: 'protocol-ignored',
    what: 'getEndpoint() returns an HTTP URL for every protocol',
    caughtBy: ['endpoint-protocol'],
    make: (working) =>
      breakProvider(working, { sandbox: (real) => ({ getEndpoint: (port) => real.getEndpoint(port) }) }),
  },
  {
    name: 'tls-pretended',
    what: 'getEndpoint() returns a URL with TLS for a port that has none',
    caughtBy: ['endpoint-protocol'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          getEndpoint: async (port, { protocol = 'http' } = {}) => {
            const { url, headers } = await real.getEndpoint(port)
            return { url: url.replace(/^http/, protocol), headers }
          },
        }),
      }),
  },
  {
    name: 'forwarded-silently',
    what: 'getEndpoint() returns a port of this process, and does not say so',
    caughtBy: ['endpoint-forwarded'],
    make: (working) => {
      let port = 20_000
      return breakProvider(working, {
        provider: (real) => ({
          get: async (...args) => {
            port += 1
            return real.get(...args)
          },
        }),
        sandbox: () => ({ getEndpoint: async () => ({ url: `http://127.0.0.1:${port}`, headers: {} }) }),
      })
    },
  },
  {
    name: 'lines-from-zero',
    what: 'lines are counted from 0, and the end is exclusive',
    caughtBy: ['lines'],
    make: (working) =>
      breakProvider(working, {
        files: (real) => ({
          readLines: async (path, { startLine = 1, endLine, ...rest } = {}) => ({
            ...(await real.readLines(path, { startLine: startLine + 1, endLine, ...rest })),
            startLine,
          }),
        }),
      }),
  },
  {
    name: 'lines-by-split',
    what: 'lines are split at \\n, of any length, and a final newline begins another line',
    caughtBy: ['lines', 'lines-endings', 'lines-long'],
    make: (working) =>
      breakProvider(working, {
        files: (real) => ({
          readLines: async (path, { startLine = 1, endLine = Number.POSITIVE_INFINITY } = {}) => {
            const all = (await real.readFile(path, 'utf8')).split('\n')
            const lines = all.slice(startLine - 1, endLine)
            return { lines, startLine, cutLines: [], more: all.length > endLine, totalLines: all.length }
          },
        }),
      }),
  },
  {
    name: 'chunks-decoded-alone',
    what: 'each chunk of a file is decoded by itself',
    caughtBy: ['lines-utf8'],
    make: (working) =>
      breakProvider(working, {
        files: (real) => ({
          readLines: async (path, { startLine = 1 } = {}) => {
            let text = ''
            for await (const chunk of await real.readStream(path)) text += new TextDecoder().decode(chunk)
            const lines = text.split('\n').slice(startLine - 1, -1)
            return { lines, startLine, cutLines: [], more: false, totalLines: lines.length }
          },
        }),
      }),
  },
]
