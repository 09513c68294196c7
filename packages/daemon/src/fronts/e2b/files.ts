import type { IncomingMessage } from 'node:http'
import path from 'node:path'
import { Readable } from 'node:stream'
import { createGunzip, createGzip } from 'node:zlib'
import { SandboxError } from '@sandkasten/sdk'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { byteRange } from '../../http/byte-range.ts'
import { bodyChunks } from '../../http/request-body.ts'
import { sendStream } from '../../http/send-stream.ts'
import type { FrontPlace } from '../front.ts'
import type { DataPlane, Entered, FileQuery } from './envd/data-plane.ts'
import { absolute } from './filesystem/file-entries.ts'
import { keepMetadata, metadataOf } from './filesystem/file-metadata.ts'
import { eachFile } from './filesystem/upload-form.ts'

const idleMs = 60_000

/** The file and health routes of E2B's daemon in the sandbox. */
export function fileRoutes(app: FastifyInstance, place: FrontPlace, plane: DataPlane): void {
  const { sessions } = place.services

  plane.route(app, {
    method: 'GET',
    url: '/health',
    scope: 'read',
    handle: async ({ request, reply }) => {
      await plane.enter(request)
      reply.code(204)
    },
  })

  plane.fileRoute(app, {
    method: 'GET',
    url: '/files',
    scope: 'read',
    handle: async ({ request, reply }) => {
      const { path: given } = request.query as FileQuery
      const { caller, session } = await plane.enter(request)
      const file = absolute(needed(given), session)
      const used = await sessions.use.take(caller, session.id, { wake: false })
      try {
        await send(request, reply, used.sandbox.files, file)
      } finally {
        used.release()
        sessions.touch(session.id)
      }
    },
  })

  plane.fileRoute(app, {
    method: 'POST',
    url: '/files',
    scope: 'exec',
    streamed: true,
    handle: async ({ request, body }) => {
      const query = request.query as FileQuery
      const entered = await plane.enter(request)
      const payload = body as IncomingMessage
      const metadata = metadataOf(request)
      const written: object[] = []
      const write = async (given: string, content: AsyncIterable<Uint8Array>) => {
        const file = absolute(given, entered.session)
        await put(entered, file, content)
        await keepMetadata(place, entered.session, file, metadata)
        written.push({
          name: path.posix.basename(file),
          path: file,
          type: 'file',
          metadata,
        })
      }
      if (/^multipart\/form-data\b/i.test(request.headers['content-type'] ?? ''))
        await eachFile(payload, idleMs, (name, content) => write(query.path || needed(name), content))
      else await write(needed(query.path), unzipped(request, bodyChunks(payload, idleMs)))
      if (written.length > 0) return written
      throw new SandboxError('invalid_argument', 'The request has no file.')
    },
  })

  const put = ({ caller, session }: Entered, file: string, content: AsyncIterable<Uint8Array>) =>
    sessions.use.use(caller, session.id, ({ sandbox }) => sandbox.files.writeFile(file, content), {
      wake: false,
    })
}

type Files = Awaited<ReturnType<FrontPlace['services']['sessions']['use']['take']>>['sandbox']['files']

async function send(request: FastifyRequest, reply: FastifyReply, files: Files, file: string): Promise<void> {
  const { size } = await files.stat(file)
  const zipped = /^\s*gzip\s*$/i.test(request.headers['accept-encoding'] ?? '')
  const range = zipped || size === 0 ? undefined : byteRange(request.headers.range, size)
  const stream = await files.readStream(file, range)
  const name = encodeURIComponent(path.posix.basename(file))
  reply.header('content-type', 'application/octet-stream').header('accept-ranges', 'bytes')
  // Content of a sandbox must never run in a browser under our origin.
  reply.header('content-disposition', `attachment; filename*=UTF-8''${name}`)
  reply.header('content-security-policy', 'sandbox')
  if (range) reply.code(206).header('content-range', `bytes ${range.start}-${range.end - 1}/${size}`)
  if (!zipped && size > 0) return sendStream(reply, stream, range ? range.end - range.start : size)
  const chunks = Readable.fromWeb(stream as never)
  if (zipped) {
    reply.header('content-encoding', 'gzip')
    const gzip = createGzip()
    chunks.on('error', (error) => gzip.destroy(error))
    return sendStream(reply, chunks.pipe(gzip))
  }
  // Files in /proc report size 0 but have content. An empty file must send its length, because SDKs look at it.
  const rest = chunks[Symbol.asyncIterator]()
  const first = await rest.next()
  if (first.done) return void reply.header('content-length', 0).send('')
  await sendStream(reply, Readable.from(preceded(first.value, rest)))
}

async function* preceded<T>(first: T, rest: AsyncIterator<T>): AsyncGenerator<T> {
  yield first
  for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value
}

function unzipped(request: FastifyRequest, chunks: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  const encoding = request.headers['content-encoding']
  if (encoding === undefined || encoding === 'identity') return chunks
  if (encoding !== 'gzip')
    throw new SandboxError('invalid_argument', `The encoding ${encoding} is not supported.`, {
      hint: 'Use gzip, or leave Content-Encoding out.',
    })
  const source = Readable.from(chunks)
  const gunzip = createGunzip()
  source.on('error', (error) => gunzip.destroy(error))
  return translated(source.pipe(gunzip))
}

async function* translated(stream: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* stream
  } catch (cause) {
    if (SandboxError.is(cause)) throw cause
    throw new SandboxError('invalid_argument', 'The body is not gzip.', { cause })
  }
}

/** Refuses a missing or repeated parameter. */
function needed(file: unknown): string {
  if (typeof file === 'string' && file !== '') return file
  throw new SandboxError('invalid_argument', 'path is missing.')
}
