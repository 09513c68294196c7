import { SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import { byteRange } from '../../http/byte-range.ts'
import { bodyChunks } from '../../http/request-body.ts'
import { accountOf } from '../../http/response-memory.ts'
import { sendStream } from '../../http/send-stream.ts'
import type { Services } from '../../http/services.ts'
import type { Used } from '../../sessions/index.ts'
import { incarnationOf } from '../incarnation.ts'
import { type Call, type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'
import { statView } from '../views.ts'

const tag = 'files'
const params = schemas.sessionParams
const path = schemas.filePath
const mode = z.int().min(0).max(0o7777)
const octal = z
  .string()
  .regex(/^[0-7]{1,4}$/, 'must be octal, such as 644')
  .transform((text) => Number.parseInt(text, 8))
const done = { description: 'Done.', schema: z.object({ ok: z.literal(true) }) }

/** A read gets at least this much memory, even when the project's memory is used up. */
const freeReadBytes = 65_536

export function fileRoutes({ sessions, streams, patience, config }: Services): Route[] {
  // Base64 encodes three bytes as four.
  const mostReadBytes = (config.max_result_mb * 1_048_576 * 3) / 4
  const use = <T>(
    call: Call<{ id: string }>,
    work: (files: Used['sandbox']['files'], used: Used) => Promise<T>,
  ) =>
    sessions.use.use(
      call.caller,
      call.params.id,
      (used) => work(used.sandbox.files, used),
      incarnationOf(call.request),
    )

  return [
    route({
      id: 'fsWrite',
      method: 'POST',
      path: '/v1/sessions/{id}/fs/write',
      access: 'exec',
      tag,
      summary: 'Write a file from a JSON request, atomically. Creates parent folders.',
      params,
      body: z.strictObject({
        path,
        content: z.string().optional().describe('Text.'),
        content_base64: z.base64().optional(),
        mode: mode.optional(),
      }),
      largeBody: true,
      answer: done,
      async handle(call) {
        const { body, signal } = call
        if ((body.content === undefined) === (body.content_base64 === undefined))
          throw new SandboxError('invalid_argument', 'Give either content or content_base64.')
        const data = body.content ?? Buffer.from(body.content_base64!, 'base64')
        await use(call, (files) => files.writeFile(body.path, data, { mode: body.mode, signal }))
        return { ok: true }
      },
    }),
    route({
      id: 'fsRead',
      method: 'GET',
      path: '/v1/sessions/{id}/fs/read',
      access: 'read',
      tag,
      summary: 'Read a file into a JSON response. To download it, use GET …/files.',
      params,
      query: z.strictObject({
        path,
        max_bytes: schemas.whole
          .optional()
          .describe(
            'Default 1 MiB. At most three quarters of max_result_mb, and less while memory is short.',
          ),
      }),
      answer: {
        description: 'The content, up to max_bytes.',
        schema: z.object({
          path: z.string(),
          content_base64: z.string(),
          size: z.number(),
          truncated: z.boolean(),
        }),
      },
      async handle(call) {
        const { query, signal } = call
        const most = Math.min(query.max_bytes ?? 1_048_576, mostReadBytes)
        const account = accountOf(sessions.memory, call.request, call.reply)
        return use(call, async (files) => {
          const { size } = await files.stat(query.path, { signal })
          const chunks: Uint8Array[] = []
          let free = freeReadBytes
          for await (const chunk of await files.readStream(query.path, { start: 0, end: most, signal })) {
            free -= chunk.byteLength
            if (free < 0 && !account.take(chunk.byteLength)) break
            chunks.push(chunk)
          }
          const content = Buffer.concat(chunks)
          return {
            path: query.path,
            content_base64: content.toString('base64'),
            size: Math.max(size, content.length),
            truncated: size > content.length,
          }
        })
      },
    }),
    route({
      id: 'readFile',
      method: 'GET',
      path: '/v1/sessions/{id}/files',
      access: 'read',
      tag,
      summary: 'Download a file. `Range: bytes=…` selects a part.',
      params,
      query: z.strictObject({ path }),
      answer: {
        description: 'The content. The status is 206 for a part.',
        types: ['application/octet-stream'],
      },
      async handle(call) {
        const { query, request, reply, signal, caller } = call
        const used = await sessions.use.take(caller, call.params.id, incarnationOf(request))
        try {
          const { files } = used.sandbox
          const stat = await files.stat(query.path, { signal })
          const part = byteRange(request.headers.range, stat.size)
          const stream = await files.readStream(query.path, { ...part, signal })
          reply.header('accept-ranges', 'bytes').header('content-type', 'application/octet-stream')
          if (part)
            reply.code(206).header('content-range', `bytes ${part.start}-${part.end - 1}/${stat.size}`)
          // Files in /proc report size 0 but have content, so their length is known only after reading.
          const length = part ? part.end - part.start : stat.size
          await sendStream(reply, stream, length > 0 ? length : undefined)
        } finally {
          used.release()
          sessions.touch(call.params.id)
        }
      },
    }),
    route({
      id: 'writeFile',
      method: 'PUT',
      path: '/v1/sessions/{id}/files',
      access: 'exec',
      tag,
      summary: 'Upload a file of any size. The body is streamed.',
      params,
      query: z.strictObject({ path, mode: octal.optional(), append: schemas.flag.optional() }),
      body: 'stream',
      answer: done,
      async handle(call) {
        const { query, body, signal } = call
        const data = bodyChunks(body, patience.bodyMs)
        await use(call, (files) =>
          query.append
            ? files.appendFile(query.path, data, { mode: query.mode, signal })
            : files.writeFile(query.path, data, { mode: query.mode, signal }),
        )
        return { ok: true }
      },
    }),
    route({
      id: 'removeFile',
      method: 'DELETE',
      path: '/v1/sessions/{id}/files',
      access: 'exec',
      tag,
      summary: 'Remove a file, or a folder with `recursive`.',
      params,
      query: z.strictObject({ path, recursive: schemas.flag.optional(), force: schemas.flag.optional() }),
      answer: done,
      async handle(call) {
        const { path, recursive, force } = call.query
        await use(call, (files) => files.rm(path, { recursive, force, signal: call.signal }))
        return { ok: true }
      },
    }),
    route({
      id: 'listFiles',
      method: 'GET',
      path: '/v1/sessions/{id}/files/list',
      access: 'read',
      tag,
      summary: 'List a folder. Symbolic links are listed and never followed.',
      params,
      query: z.strictObject({
        path: path.optional().describe('Default: the working directory.'),
        recursive: schemas.flag.optional(),
      }),
      answer: {
        description: 'Entries, sorted by path.',
        schema: z.object({ entries: z.array(schemas.fileEntry) }),
      },
      async handle(call) {
        const { path = '.', recursive } = call.query
        const { caller, signal } = call
        const entries = await sessions.largeCalls.run(caller.projectId, signal, () =>
          use(call, (files) => files.list(path, { recursive, signal })),
        )
        return {
          entries: entries.map((entry) => ({ name: entry.name, path: entry.path, ...statView(entry) })),
        }
      },
    }),
    route({
      id: 'statFile',
      method: 'GET',
      path: '/v1/sessions/{id}/files/stat',
      access: 'read',
      tag,
      summary: 'Get a file’s type, size and times. `follow=false` describes a symbolic link itself.',
      params,
      query: z.strictObject({ path, follow: schemas.flag.optional() }),
      answer: {
        description: 'The file’s metadata.',
        schema: schemas.fileStat.extend({ target: z.string().optional() }),
      },
      async handle(call) {
        const { path, follow = true } = call.query
        const { signal } = call
        return use(call, async (files) => {
          const stat = follow ? await files.stat(path, { signal }) : await files.lstat(path, { signal })
          return {
            ...statView(stat),
            target: stat.type === 'symlink' ? await files.readlink(path, { signal }) : undefined,
          }
        })
      },
    }),
    route({
      id: 'makeFolder',
      method: 'POST',
      path: '/v1/sessions/{id}/files/mkdir',
      access: 'exec',
      tag,
      summary: 'Create a folder.',
      params,
      body: z.strictObject({ path, recursive: z.boolean().optional(), mode: mode.optional() }),
      answer: done,
      async handle(call) {
        const { path, ...options } = call.body
        await use(call, (files) => files.mkdir(path, { ...options, signal: call.signal }))
        return { ok: true }
      },
    }),
    route({
      id: 'moveFile',
      method: 'POST',
      path: '/v1/sessions/{id}/files/move',
      access: 'exec',
      tag,
      summary: 'Rename a file or folder. Replaces an existing file.',
      params,
      body: z.strictObject({ from: path, to: path }),
      answer: done,
      async handle(call) {
        await use(call, (files) => files.rename(call.body.from, call.body.to, { signal: call.signal }))
        return { ok: true }
      },
    }),
    route({
      id: 'changeMode',
      method: 'POST',
      path: '/v1/sessions/{id}/files/chmod',
      access: 'exec',
      tag,
      summary: 'Change a file’s permissions.',
      params,
      body: z.strictObject({ path, mode }),
      answer: done,
      async handle(call) {
        await use(call, (files) => files.chmod(call.body.path, call.body.mode, { signal: call.signal }))
        return { ok: true }
      },
    }),
    route({
      id: 'makeLink',
      method: 'POST',
      path: '/v1/sessions/{id}/files/symlink',
      access: 'exec',
      tag,
      summary: 'Create a symbolic link.',
      params,
      body: z.strictObject({ target: path, path }),
      answer: done,
      async handle(call) {
        await use(call, (files) => files.symlink(call.body.target, call.body.path, { signal: call.signal }))
        return { ok: true }
      },
    }),
    route({
      id: 'watchFiles',
      method: 'GET',
      path: '/v1/sessions/{id}/files/watch',
      access: 'read',
      tag,
      summary: 'Watch files for changes, as events (SSE). Every change after the event `ready` is reported.',
      params,
      query: z.strictObject({ path: path.optional(), recursive: schemas.flag.optional() }),
      answer: { description: 'Events `ready` and `change`.', types: ['text/event-stream'] },
      async handle(call) {
        const { query, caller, reply, signal } = call
        const used = await sessions.use.take(caller, call.params.id, incarnationOf(call.request))
        // A watch is not activity and does not keep the session alive.
        used.release()
        await streams.send(
          reply,
          async function* (ending) {
            const changes = await used.sandbox.files.watch(query.path ?? '.', {
              recursive: query.recursive,
              signal: ending,
            })
            yield { event: 'ready', data: {} }
            let seq = 0
            for await (const change of changes) {
              seq += 1
              yield { event: 'change', id: seq, data: change }
            }
          },
          signal,
        )
      },
    }),
    route({
      id: 'packFolder',
      method: 'GET',
      path: '/v1/sessions/{id}/files/archive',
      access: 'read',
      tag,
      summary: 'Download a folder as a tar archive. Uses the sandbox’s own tar.',
      params,
      query: z.strictObject({ path: path.optional() }),
      answer: { description: 'A tar archive.', types: ['application/x-tar'] },
      async handle(call) {
        const { query, caller, reply, signal } = call
        const used = await sessions.use.take(caller, call.params.id, incarnationOf(call.request))
        try {
          const folder = query.path ?? '.'
          const { type } = await used.sandbox.files.stat(folder, { signal })
          if (type !== 'directory') throw new SandboxError('not_a_directory', `${folder} is not a folder.`)
          const tar = await used.sandbox.spawn({
            cmd: 'tar',
            args: ['-c', '-f', '-', '-C', folder, '.'],
            signal,
          })
          reply.header('content-type', 'application/x-tar')
          await sendStream(reply, packed(tar.output({ signal })))
        } finally {
          used.release()
          sessions.touch(call.params.id)
        }
      },
    }),
    route({
      id: 'unpackArchive',
      method: 'PUT',
      path: '/v1/sessions/{id}/files/archive',
      access: 'exec',
      tag,
      summary: 'Unpack a tar archive (plain or gzip) into a folder. Creates the folder if needed.',
      params,
      query: z.strictObject({ path: path.optional(), gzip: schemas.flag.optional() }),
      body: 'stream',
      answer: done,
      async handle(call) {
        const { query, body, signal } = call
        await use(call, async (files, { sandbox }) => {
          const folder = query.path ?? '.'
          if (query.path !== undefined) await files.mkdir(folder, { recursive: true, signal })
          const args = ['-x', ...(query.gzip ? ['-z'] : []), '-f', '-', '--no-same-owner', '-C', folder]
          const result = await sandbox.runCommand({
            cmd: 'tar',
            args,
            stdin: bodyChunks(body, patience.bodyMs),
            signal,
          })
          if (result.exitCode !== 0)
            throw new SandboxError(
              'invalid_argument',
              `The archive could not be unpacked: ${result.stderr.trim().slice(-300)}`,
              {
                hint: {
                  sdk: 'Send a tar archive; for a compressed one add { gzip: true }.',
                  http: 'Send a tar archive; for a compressed one add gzip=true.',
                  cli: 'Send a tar archive; for a compressed one add --gzip.',
                },
              },
            )
        })
        return { ok: true }
      },
    }),
  ]
}

/** Throws when tar fails, so that a client does not take a truncated archive for a complete one. */
async function* packed(
  output: AsyncIterable<{ type: string; data?: Uint8Array; exitCode?: number }>,
): AsyncGenerator<Uint8Array> {
  for await (const event of output) {
    if (event.type === 'stdout') yield event.data!
    if (event.type === 'exit' && event.exitCode !== 0 && event.exitCode !== 1)
      throw new SandboxError('provider_error', `tar failed with exit code ${event.exitCode}.`)
  }
}
