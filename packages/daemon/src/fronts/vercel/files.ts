import { posix } from 'node:path'
import { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import * as fields from '../../http/fields.ts'
import { bodyChunks } from '../../http/request-body.ts'
import { sendStream } from '../../http/send-stream.ts'
import { notSupported, parsed } from '../shared/request.ts'
import type { Entry, VercelRoute } from './entry.ts'
import { running } from './sessions.ts'

const base = '/v2/sandboxes/sessions/:sid/fs'
const streamIdleMs = 60_000
const place = z.looseObject({ path: fields.filePath, cwd: z.string().optional() })

export function fileRoutes(entry: Entry): VercelRoute[] {
  const { sessions } = entry.services
  return [
    {
      method: 'POST',
      path: `${base}/write`,
      scope: 'exec',
      streamed: true,
      async handle(call) {
        const session = await running(entry, call)
        const { 'x-cwd': folder } = call.request.headers
        if (typeof folder !== 'string' || !folder.startsWith('/'))
          throw new SandboxError('invalid_argument', 'The header x-cwd is not an absolute path.')
        await sessions.use.use(
          call.caller,
          session.id,
          async ({ sandbox }) => {
            const args = ['-x', '-p', '-f', '-', '--no-same-owner', '-C', folder]
            const stdin = unzipped(call.body as NodeJS.ReadableStream)
            const result = await sandbox.runCommand({ cmd: 'tar', args, stdin, signal: call.signal })
            if (result.exitCode === 0) return
            throw new SandboxError(
              'invalid_argument',
              `The files could not be written: ${result.stderr.trim().slice(-300)}`,
              { hint: 'Check their paths.' },
            )
          },
          { incarnation: session.incarnation },
        )
        return {}
      },
    },
    {
      method: 'POST',
      path: `${base}/read`,
      scope: 'read',
      async handle(call) {
        const path = pathOf(parsed(place, call.body))
        const session = await running(entry, call)
        const used = await sessions.use.take(call.caller, session.id, { incarnation: session.incarnation })
        try {
          const { files } = used.sandbox
          const { size, type } = await files.stat(path, { signal: call.signal })
          if (type === 'directory') throw new SandboxError('is_a_directory', `${path} is a directory.`)
          const stream = await files.readStream(path, { signal: call.signal })
          call.reply.header('content-type', 'application/octet-stream')
          // Files in /proc report size 0 but have content, so their length is known only after reading.
          await sendStream(call.reply, stream, size > 0 ? size : undefined)
        } finally {
          used.release()
          sessions.touch(session.id)
        }
        return undefined
      },
    },
    {
      method: 'POST',
      path: `${base}/mkdir`,
      scope: 'exec',
      async handle(call) {
        const path = pathOf(parsed(place, call.body))
        const session = await running(entry, call)
        await sessions.use.use(
          call.caller,
          session.id,
          ({ sandbox }) => sandbox.files.mkdir(path, { signal: call.signal }),
          { incarnation: session.incarnation },
        )
        return {}
      },
    },
    ...(['GET', 'POST', 'DELETE'] as const).flatMap((method) =>
      ['/v2/sandboxes/drives', '/v2/sandboxes/drives/:drive'].map((path) => ({
        method,
        path,
        scope: 'read' as const,
        handle: async () => {
          throw notSupported('A drive')
        },
      })),
    ),
  ]
}

function pathOf({ path, cwd }: z.infer<typeof place>): string {
  return cwd === undefined ? path : posix.resolve('/', cwd, path)
}

/** Decompresses the body in the daemon, so that the sandbox needs no gzip. */
async function* unzipped(body: NodeJS.ReadableStream): AsyncGenerator<Uint8Array> {
  const gunzip = createGunzip()
  const source = Readable.from(bodyChunks(body, streamIdleMs))
  source.once('error', (error) => gunzip.destroy(error))
  source.pipe(gunzip)
  try {
    for await (const chunk of gunzip) yield chunk as Uint8Array
  } catch (error) {
    if (SandboxError.is(error)) throw error
    throw new SandboxError('invalid_argument', 'The body is not a gzip archive.', { cause: error })
  } finally {
    source.destroy()
    gunzip.destroy()
  }
}
