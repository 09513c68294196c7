import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import { translate } from '../../../http/problems.ts'
import type { Used } from '../../../sessions/index.ts'
import { eachPart } from '../../shared/multipart.ts'
import { parsed } from '../../shared/request.ts'
import { type Call, type Entry, found, using } from '../entry.ts'
import { refuse } from '../refusal.ts'

const pathsBody = z.object({ paths: z.array(z.string().min(1)).min(1).max(1000) })
const limits = { idleMs: 60_000, fieldBytes: 8192, files: 1000 }

/** Uploads and downloads many files in one request, as `multipart/form-data`. Files are streamed, never buffered. */
export function bulkRoutes(entry: Entry): void {
  entry.add('POST', '/toolbox/:id/files/bulk-upload', 'exec', upload, { streamed: true })
  entry.add('POST', '/toolbox/:id/files/bulk-download', 'read', download)
}

/** Expects `files[0].path`, then `files[0].file`, and so on. */
async function upload(call: Call) {
  const written: Array<{ path: string; bytes: number }> = []
  const errors: string[] = []
  await using(call, async ({ sandbox }) => {
    const paths = new Map<string, string>()
    await eachPart(
      call.body as IncomingMessage,
      {
        field(name, value) {
          const [, index] = /^files\[(\d{1,4})\]\.path$/.exec(name) ?? []
          if (index !== undefined) paths.set(index, value)
        },
        async file(name, content) {
          const [, index] = /^files\[(\d{1,4})\]\.file$/.exec(name) ?? []
          const path = index === undefined ? undefined : paths.get(index)
          if (path === undefined || path === '') {
            errors.push(`${name}: its path is missing`)
            return
          }
          try {
            written.push({ path, bytes: await write(sandbox, path, content, call.signal) })
          } catch (error) {
            errors.push(`${path}: ${translate(error).message}`)
          }
        },
      },
      limits,
    )
  })
  if (errors.length > 0) call.reply.code(400)
  return errors.length === 0 ? { files: written } : { errors, files: written, message: errors.join('; ') }
}

async function write(
  sandbox: Used['sandbox'],
  path: string,
  content: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<number> {
  let bytes = 0
  const chunks = async function* () {
    for await (const chunk of content) {
      bytes += chunk.length
      yield chunk
    }
    // Fail, so that a truncated body does not become a file that looks complete.
    if (signal.aborted) throw new SandboxError('aborted', 'The client disconnected.')
  }
  await sandbox.files.writeFile(path, chunks(), { signal })
  return bytes
}

/** Sends one part per file: `file` with its content, or `error` with the reason. */
async function download(call: Call): Promise<void> {
  const { paths } = parsed(pathsBody, call.body)
  const { sessions } = call.place.services
  const used = await sessions.use.take(call.caller, (await found(call)).id, { wake: false })
  const boundary = `sandkasten-${randomUUID()}`
  call.reply.hijack()
  const { raw } = call.reply
  try {
    raw.writeHead(200, {
      'content-type': `multipart/form-data; boundary=${boundary}`,
      'x-request-id': call.request.id,
    })
    for (const path of paths) await sendPart(call, used.sandbox, raw, { boundary, path })
    raw.end(`--${boundary}--\r\n`)
  } catch {
    raw.destroy()
  } finally {
    used.release()
    sessions.touch(used.session.id)
  }
}

async function sendPart(
  call: Call,
  sandbox: Used['sandbox'],
  raw: ServerResponse,
  { boundary, path }: { boundary: string; path: string },
): Promise<void> {
  // Only the second form can encode every path. Older Python SDKs read only the first; others read it as Latin-1.
  const plain = path.replace(/["\r\n]/g, (letter) => encodeURIComponent(letter)).replaceAll('\\', '\\\\')
  const filename = `filename="${plain}"; filename*=UTF-8''${encodeURIComponent(path).replaceAll("'", '%27')}`
  const head = (name: string, type: string, length?: number) =>
    `--${boundary}\r\ncontent-disposition: form-data; name="${name}"; ${filename}\r\ncontent-type: ${type}\r\n${length === undefined ? '' : `content-length: ${length}\r\n`}\r\n`
  let content: AsyncIterator<Uint8Array>
  let first: IteratorResult<Uint8Array>
  let size: number
  try {
    const stat = await sandbox.files.stat(path, { signal: call.signal })
    if (stat.type === 'directory') throw new SandboxError('is_a_directory', `${path} is a directory`)
    size = stat.size
    const stream = await sandbox.files.readStream(path, { signal: call.signal })
    content = (stream as unknown as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]()
    first = await content.next()
  } catch (error) {
    const body = JSON.stringify(refuse(fileError(error), call.request).body)
    raw.write(`${head('error', 'application/json', Buffer.byteLength(body))}${body}\r\n`)
    return
  }
  // Files in /proc report size 0 but have content, so their length is left out.
  raw.write(head('file', 'application/octet-stream', size > 0 ? size : undefined))
  for (let next = first; !next.done; next = await content.next())
    if (!raw.write(next.value)) await once(raw, 'drain', { signal: call.signal })
  raw.write('\r\n')
}

function fileError(error: unknown): SandboxError {
  const known = translate(error)
  if (known.code === 'file_not_found' || known.code === 'permission_denied') return known
  return new SandboxError(known.code, known.message, {
    details: { daytonaCode: known.code === 'is_a_directory' ? 'INVALID_FILE_PATH' : 'FILE_READ_FAILED' },
  })
}
