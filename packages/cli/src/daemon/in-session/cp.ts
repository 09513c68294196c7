import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, rename, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { pipeline as pipelineOf, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { SandboxError } from '@sandkasten/sdk'
import { randomId } from '@sandkasten/sdk/provider'
import { type Copied, copiedText, counting, type Place, placeOf, tarSize } from '../../copying.ts'
import { say } from '../../errors.ts'
import { packFolder } from '../../local-tar.ts'
import { write } from '../../output.ts'
import { Meter, showing } from '../../progress.ts'
import { print } from '../../table.ts'
import { type Connection, type ConnectOptions, connect, queryOf } from '../client/api.ts'

export interface CpOptions extends ConnectOptions {
  json?: boolean
}

interface Copying {
  connection: Connection
  meter: Meter
  signal: AbortSignal
}

/** Like `cp -r`: copies into an existing folder, else under the given name. `-` is stdin or stdout. */
export async function cp(from: string, to: string, options: CpOptions): Promise<number> {
  const [source, target] = [placeOf(from), placeOf(to)]
  if ((source.name === undefined) === (target.name === undefined))
    throw new SandboxError('invalid_argument', 'Exactly one of the two paths must be in a session.', {
      hint: 'Write a path in a session as SESSION:path, and a local path with a colon as ./a:b.',
    })
  const connection = await connect(options)
  const leaving = new AbortController()
  const leave = () => leaving.abort()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, leave)
  const copying = { connection, meter: new Meter(), signal: leaving.signal }
  const work =
    target.name === undefined
      ? download(copying, source as Place & { name: string }, target.path)
      : upload(copying, source.path, target as Place & { name: string })
  try {
    const copied = await showing(() => copying.meter.line(), work)
    for (const name of copied.skipped)
      say(`sandkasten: skipped ${JSON.stringify(name)}, which is not a file.`)
    // With `-`, stdout carries the file itself.
    if (to !== '-') print(options.json, copied, () => copiedText(copied))
    return 0
  } catch (error) {
    if (leaving.signal.aborted) return 130
    throw error
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.off(signal, leave)
  }
}

interface Entry {
  name: string
  type: string
  size: number
  mode: number | null
}

async function upload(copying: Copying, from: string, to: Place & { name: string }): Promise<Copied> {
  const { connection, meter } = copying
  if (from === '-') {
    const base = `${await connection.session(to.name)}/files`
    await put(copying, `${base}${queryOf({ path: to.path })}`, process.stdin)
    return { files: 1, bytes: meter.done, skipped: [] }
  }
  const facts = await stat(from)
  const base = `${await connection.session(to.name)}/files`
  const there = await statOf(connection, base, to.path)
  const place =
    there?.type === 'directory' ? path.posix.join(to.path, path.basename(path.resolve(from))) : to.path
  if (!facts.isDirectory()) {
    meter.total = facts.size
    const query = queryOf({ path: place, mode: (facts.mode & 0o777).toString(8) })
    await put(copying, `${base}${query}`, createReadStream(from))
    return { files: 1, bytes: meter.done, skipped: [] }
  }
  if (process.stderr.isTTY) meter.total = await tarSize(from)
  const tar = packFolder(from)
  await put(copying, `${base}/archive${queryOf({ path: place })}`, tar.stream)
  return { files: await tar.files(), bytes: meter.done, skipped: [] }
}

/** Uploads a stream and counts its bytes. Stops reading when the request is refused or interrupted. */
async function put({ connection, meter, signal }: Copying, url: string, source: Readable): Promise<void> {
  const count = counting(meter)
  // The web stream passes a failure of the source on to the request.
  pipelineOf(source, count, () => {})
  try {
    const bytes = Readable.toWeb(count) as ReadableStream<Uint8Array>
    await connection.request('PUT', url, { bytes, signal })
  } finally {
    source.destroy()
  }
}

async function download(copying: Copying, from: Place & { name: string }, to: string): Promise<Copied> {
  const { connection, meter, signal } = copying
  const base = `${await connection.session(from.name)}/files`
  const facts = await statOf(connection, base, from.path)
  if (!facts)
    throw new SandboxError('file_not_found', `${from.path} does not exist in the session.`, {
      hint: 'Check the path.',
    })
  if (to === '-') return toStdout(copying, base, from.path, facts)
  const here = await stat(to).catch(() => undefined)
  const name = path.posix.basename(path.posix.resolve('/', from.path)) || from.name
  const place = here?.isDirectory() ? path.join(to, name) : to
  const copied: Copied = { files: 0, bytes: 0, skipped: [] }
  if (facts.type === 'directory') {
    if (process.stderr.isTTY) {
      const query = queryOf({ path: from.path, recursive: true })
      const { entries } = await connection.json<{ entries: Entry[] }>(
        'GET',
        `${base}/list${query}`,
        undefined,
        {
          signal,
        },
      )
      meter.total = entries.reduce((sum, { type, size }) => sum + (type === 'file' ? size : 0), 0)
    }
    await folder(copying, base, from.path, place, copied)
  } else {
    meter.total = facts.size
    await file(copying, base, from.path, { ...facts, name }, place, copied)
  }
  return copied
}

async function toStdout(
  { connection, meter, signal }: Copying,
  base: string,
  from: string,
  facts: Entry,
): Promise<Copied> {
  if (facts.type === 'directory')
    throw new SandboxError('is_a_directory', `${from} is a directory.`, {
      hint: 'Write it as a tar archive with sandkasten files pack.',
    })
  meter.total = facts.size
  const response = await connection.request('GET', `${base}${queryOf({ path: from })}`, { signal })
  for await (const chunk of response.body ?? []) {
    await write(process.stdout, chunk)
    meter.add(chunk.length)
  }
  return { files: 1, bytes: meter.done, skipped: [] }
}

/**
 * Names from a sandbox are hostile: each must be a single path component. Links are never created, and folders are
 * created by us, so nothing is written outside the destination.
 */
async function folder(
  copying: Copying,
  base: string,
  from: string,
  to: string,
  copied: Copied,
): Promise<void> {
  await mkdir(to, { recursive: true })
  const { entries } = await copying.connection.json<{ entries: Entry[] }>(
    'GET',
    `${base}/list${queryOf({ path: from })}`,
  )
  for (const entry of entries) {
    const [inside, outside] = [path.posix.join(from, entry.name), path.join(to, entry.name)]
    const plain =
      entry.name !== '' && entry.name !== '.' && entry.name !== '..' && !/[/\\\0]/.test(entry.name)
    if (!plain) copied.skipped.push(entry.name)
    else if (entry.type === 'directory') await folder(copying, base, inside, outside, copied)
    else if (entry.type === 'file') await file(copying, base, inside, entry, outside, copied)
    else copied.skipped.push(inside)
  }
}

/** Writes the file atomically. Replaces an existing link instead of following it. */
async function file(
  { connection, meter, signal }: Copying,
  base: string,
  from: string,
  { mode }: Entry,
  to: string,
  copied: Copied,
): Promise<void> {
  const response = await connection.request('GET', `${base}${queryOf({ path: from })}`, { signal })
  const part = `${to}.${randomId(8)}.part`
  try {
    const output = createWriteStream(part, { flags: 'wx', mode: (mode ?? 0o644) & 0o777 })
    const bytes = response.body ? Readable.fromWeb(response.body as never) : Readable.from([])
    bytes.on('data', (chunk: Buffer) => meter.add(chunk.length))
    await pipeline(bytes, output, { signal })
    await rename(part, to)
    copied.files += 1
    copied.bytes += output.bytesWritten
  } catch (error) {
    await rm(part, { force: true })
    throw error
  }
}

async function statOf(connection: Connection, base: string, at: string): Promise<Entry | undefined> {
  try {
    return await connection.json<Entry>('GET', `${base}/stat${queryOf({ path: at })}`)
  } catch (error) {
    if (SandboxError.is(error, 'file_not_found')) return undefined
    throw error
  }
}
