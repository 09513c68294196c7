import { concat, encode } from '../../shared/output/bytes.ts'
import type { BytesSource, SandboxHandle } from '../../spec/index.ts'
import type { BrokenProvider } from './index.ts'
import { breakProvider } from './wrap.ts'

export const brokenStreams: BrokenProvider[] = [
  {
    name: 'replay-skips',
    what: 'a reader that resumes after event N misses event N + 1',
    caughtBy: ['replay-after', 'cut-and-continue'],
    make: (working) =>
      breakProvider(working, {
        process: (real) => ({
          output: (options = {}) =>
            real.output(options.after ? { ...options, after: options.after + 1 } : options),
        }),
      }),
  },
  {
    name: 'history-not-kept',
    what: 'output that was read once cannot be read again',
    caughtBy: ['replay-from-start'],
    make: (working) =>
      breakProvider(working, {
        process: (real) => {
          let last = 0
          return {
            async *output(options = {}) {
              for await (const event of real.output({ ...options, after: options.after ?? last })) {
                last = Math.max(last, event.seq)
                yield event
              }
            },
          }
        },
      }),
  },
  {
    name: 'gone-unsaid',
    what: 'a late reader gets the rest without a notice of what is missing',
    caughtBy: ['gone'],
    make: (working) =>
      breakProvider(working, {
        process: (real) => ({
          async *output(options = {}) {
            try {
              yield* real.output(options)
            } catch (error) {
              const { code, details } = error as { code?: string; details?: { oldest?: number } }
              if (code !== 'gone' || details?.oldest === undefined) throw error
              yield* real.output({ ...options, after: details.oldest - 1 })
            }
          },
        }),
      }),
  },
  {
    name: 'program-not-slowed',
    what: 'the program runs ahead of a slow reader, and its output accumulates in memory',
    caughtBy: ['slow-reader-slows-program'],
    make: (working) =>
      breakProvider(working, {
        process: (real) => {
          const pile = (async () => {
            const events = []
            for await (const event of real.output()) events.push(event)
            return events
          })()
          pile.catch(() => {})
          return {
            async *output({ after = 0 } = {}) {
              for (const event of await pile) if (event.seq > after) yield event
            },
          }
        },
      }),
  },
  {
    name: 'stdin-left-open',
    what: 'a program without input waits forever',
    caughtBy: ['stdin-eof'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          spawn: (options) =>
            real.spawn(options.stdin === undefined ? { ...options, stdin: 'pipe' } : options),
        }),
      }),
  },
  {
    name: 'write-not-atomic',
    what: 'writes are not atomic, and a failed write leaves a partial file',
    caughtBy: ['write-atomic-failure', 'write-atomic-reader'],
    make: (working) =>
      breakProvider(working, {
        files: (real) => ({ writeFile: (path, data, options) => growing(real, path, data, options) }),
      }),
  },
  {
    name: 'binary-as-text',
    what: 'file content is treated as text',
    caughtBy: ['write-read-bytes', 'upload'],
    make: (working) =>
      breakProvider(working, {
        files: (real) => ({
          writeFile: async (path, data, options) =>
            real.writeFile(path, data instanceof Uint8Array ? new TextDecoder().decode(data) : data, options),
        }),
        sandbox: (real) => ({
          uploadFile: async (local, remote) => {
            const { readFile } = (await import('node:fs')).promises
            await real.files.writeFile(remote, await readFile(local, 'utf8'))
          },
        }),
      }),
  },
  {
    name: 'reads-this-machine',
    what: 'an absolute path is a path on this machine',
    caughtBy: ['absolute-outside'],
    make: (working) =>
      breakProvider(working, {
        files: (real) => {
          const readFile = async (path: string, options: object) => {
            if (!path.startsWith('/tmp')) return real.readFile(path, options)
            return (await import('node:fs')).promises.readFile(path)
          }
          return { readFile: readFile as SandboxHandle['files']['readFile'] }
        },
      }),
  },
  {
    name: 'links-followed-in-list',
    what: 'list follows links',
    caughtBy: ['symlink-listed'],
    make: (working) =>
      breakProvider(working, {
        files: (real) => ({
          list: async (path, options) =>
            (await real.list(path, options)).map((entry) =>
              entry.type === 'symlink' ? { ...entry, type: 'directory' as const } : entry,
            ),
        }),
      }),
  },
]

async function growing(
  files: SandboxHandle['files'],
  path: string,
  data: BytesSource,
  options: object | undefined,
): Promise<void> {
  if (typeof data === 'string' || data instanceof Uint8Array) return files.writeFile(path, data, options)
  const chunks: Uint8Array[] = []
  for await (const chunk of data as AsyncIterable<Uint8Array | string>) {
    chunks.push(encode(chunk))
    if (chunks.length < 4) await files.writeFile(path, concat(chunks), options)
  }
  await files.writeFile(path, concat(chunks), options)
}
