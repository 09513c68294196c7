import type { IncomingMessage } from 'node:http'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { byteRange } from '../../http/byte-range.ts'
import { sendStream } from '../../http/send-stream.ts'
import type { Used } from '../../sessions/index.ts'
import { ownersIn } from '../shared/owners.ts'
import { needed, parsed } from '../shared/request.ts'
import { type Call, type Entry, several } from './entry.ts'
import { absolute, fileInfo, refuseOwner } from './filesystem/file-info.ts'
import { matcher } from './filesystem/glob.ts'
import { eachUpload } from './filesystem/upload-form.ts'
import * as schemas from './schemas.ts'

/** The largest file in which text can be replaced. */
const mostReplaced = 16_777_216

export function fileRoutes(entry: Entry): void {
  const { sessions } = entry.services

  entry.execd('GET', '/files/info', 'read', async (call) => {
    const paths = several(call, 'path')
    return entry.use(call, async (used) => {
      const owners = await ownersIn(used.sandbox.files, call.signal)
      const infos = paths.map(async (file) => {
        const stat = await used.sandbox.files.lstat(file, { signal: call.signal })
        return [file, fileInfo(absolute(used, file), stat, owners)] as const
      })
      return Object.fromEntries(await Promise.all(infos))
    })
  })

  entry.execd('DELETE', '/files', 'exec', async (call) => {
    const paths = several(call, 'path')
    await entry.use(call, async ({ sandbox }) => {
      for (const file of paths) await sandbox.files.rm(file, { signal: call.signal })
    })
  })

  entry.execd('POST', '/files/permissions', 'exec', async (call) => {
    const wanted = Object.entries(parsed(schemas.permissions, call.body))
    for (const [, permission] of wanted) refuseOwner(permission)
    await entry.use(call, async ({ sandbox }) => {
      for (const [file, { mode }] of wanted)
        if (mode !== undefined) await sandbox.files.chmod(file, mode, { signal: call.signal })
    })
  })

  entry.execd('POST', '/files/mv', 'exec', async (call) => {
    const moves = parsed(schemas.moves, call.body)
    await entry.use(call, async ({ sandbox }) => {
      for (const { src, dest } of moves) await move(sandbox, src, dest, call.signal)
    })
  })

  entry.execd('GET', '/files/search', 'read', async (call) => {
    const folder = needed(call, 'path')
    const { pattern } = call.query
    const matches = matcher(typeof pattern === 'string' && pattern !== '' ? pattern : '**')
    return entry.list(call, async (used) => {
      const entries = await used.sandbox.files.list(folder, { recursive: true, signal: call.signal })
      const base = absolute(used, folder)
      const owners = await ownersIn(used.sandbox.files, call.signal)
      return entries
        .filter((file) => file.type !== 'directory' && matches(file.path))
        .map((file) => fileInfo(path.posix.join(base, file.path), file, owners))
    })
  })

  entry.execd('POST', '/files/replace', 'exec', async (call) => {
    const wanted = Object.entries(parsed(schemas.replacements, call.body))
    const done = await entry.list(call, async ({ sandbox }) => {
      const results: Array<[string, { replacedCount: number }]> = []
      for (const [file, change] of wanted) {
        const bytes = await sandbox.files.readFile(file, { maxBytes: mostReplaced, signal: call.signal })
        const { content, count } = replaced(bytes, change)
        if (count > 0) await sandbox.files.writeFile(file, content, { signal: call.signal })
        results.push([file, { replacedCount: count }])
      }
      return Object.fromEntries(results)
    })
    return call.query.verbose === 'true' ? done : undefined
  })

  entry.execd(
    'POST',
    '/files/upload',
    'exec',
    async (call) => {
      await entry.find(call.caller, call.id)
      await eachUpload(call.body as IncomingMessage, async (given, content) => {
        const metadata = parsed(schemas.fileMetadata, given)
        refuseOwner(metadata)
        const { path: file, mode } = metadata
        await entry.use(call, ({ sandbox }) =>
          sandbox.files.writeFile(file, content, {
            mode,
            signal: call.signal,
          }),
        )
      })
    },
    { streamed: true },
  )

  entry.execd('GET', '/files/download', 'read', async (call) => {
    const file = needed(call, 'path')
    const lines = linesAsked(call)
    if (lines) return sendLines(entry, call, file, lines)
    await entry.find(call.caller, call.id)
    const used = await sessions.use.take(call.caller, call.id, { wake: false })
    try {
      const { files } = used.sandbox
      const { type, size } = await files.stat(file, { signal: call.signal })
      if (type === 'directory') throw new SandboxError('is_a_directory', `${file} is a folder.`)
      const part = byteRange(call.request.headers.range, size)
      const stream = await files.readStream(file, { ...part, signal: call.signal })
      const name = encodeURIComponent(path.posix.basename(file))
      call.reply
        .header('content-type', 'application/octet-stream')
        .header('accept-ranges', 'bytes')
        .header('content-disposition', `attachment; filename*=UTF-8''${name}`)
      if (part) call.reply.code(206).header('content-range', `bytes ${part.start}-${part.end - 1}/${size}`)
      // Files in /proc report size 0 but have content, so their length is known only after reading.
      const length = part ? part.end - part.start : size
      await sendStream(call.reply, stream, length > 0 ? length : undefined)
    } finally {
      used.release()
      sessions.touch(call.id)
    }
  })
}

/** Moves a file. Between file systems, such as from /tmp, it uses the sandbox's mv, which copies. */
async function move(sandbox: Used['sandbox'], src: string, dest: string, signal: AbortSignal): Promise<void> {
  try {
    await sandbox.files.rename(src, dest, { signal })
  } catch (error) {
    if (!SandboxError.is(error, 'provider_error')) throw error
    const { exitCode } = await sandbox
      .runCommand({ cmd: 'mv', args: ['-T', '--', src, dest], signal })
      .catch(() => ({ exitCode: 1 }))
    if (exitCode !== 0) throw error
  }
}

/** Replaces bytes, so that content which is not valid UTF-8 stays unchanged. */
function replaced(
  bytes: Uint8Array,
  change: { old: string; new: string },
): { content: Uint8Array; count: number } {
  const latin = (text: string) => Buffer.from(text).toString('latin1')
  const parts = Buffer.from(bytes).toString('latin1').split(latin(change.old))
  return { content: Buffer.from(parts.join(latin(change.new)), 'latin1'), count: parts.length - 1 }
}

interface LineRange {
  readonly first: number
  readonly count: number
}

/** `offset` is the first line, counted from 1. `limit` is the number of lines. */
function linesAsked({ query, request }: Call): LineRange | undefined {
  const { offset, limit } = query
  if (offset === undefined && limit === undefined) return undefined
  const number = (text: string | string[] | undefined, usual: number) =>
    text === undefined ? usual : typeof text === 'string' && /^\d{1,15}$/.test(text) ? Number(text) : 0
  const range = { first: number(offset, 1), count: number(limit, Number.MAX_SAFE_INTEGER) }
  if (range.first >= 1 && range.count >= 1 && request.headers.range === undefined) return range
  throw new SandboxError(
    'invalid_argument',
    'offset and limit must be at least 1, and cannot be combined with Range.',
    {
      hint: 'Use offset and limit for lines, or Range for bytes.',
    },
  )
}

async function sendLines(entry: Entry, call: Call, file: string, range: LineRange): Promise<void> {
  await entry.find(call.caller, call.id)
  const { sessions } = entry.services
  const used = await sessions.use.take(call.caller, call.id, { wake: false })
  try {
    const stream = await used.sandbox.files.readStream(file, { signal: call.signal })
    call.reply.header('content-type', 'text/plain; charset=utf-8')
    await sendStream(call.reply, linesOf(stream, range))
  } finally {
    used.release()
    sessions.touch(call.id)
  }
}

/** Yields these lines with their ends, and stops reading after them. */
async function* linesOf(
  chunks: AsyncIterable<Uint8Array>,
  { first, count }: LineRange,
): AsyncGenerator<Uint8Array> {
  let line = 1
  const end = first + count
  for await (const chunk of chunks) {
    let from = line >= first ? 0 : -1
    for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, at + 1)) {
      line += 1
      if (line === first) from = at + 1
      if (line === end) return void (yield chunk.subarray(from, at + 1))
    }
    if (from !== -1 && from < chunk.length) yield chunk.subarray(from)
  }
}
