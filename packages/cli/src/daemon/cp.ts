import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, rename, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { SandboxError } from '@sandkasten/sdk'
import { randomId } from '@sandkasten/sdk/provider'
import { sizeText, waiting } from '../progress.ts'
import { type Connection, type ConnectOptions, connect } from './api.ts'
import { print } from './table.ts'

export interface CpOptions extends ConnectOptions {
  json?: boolean
}

interface Copied {
  files: number
  bytes: number
  /** Links and devices, which are not brought out of a sandbox. */
  skipped: string[]
}

/** As `cp -r` does: into a folder that is there, else under the given name. */
export async function cp(from: string, to: string, options: CpOptions): Promise<number> {
  const [source, target] = [placeOf(from), placeOf(to)]
  if ((source.session === undefined) === (target.session === undefined))
    throw new SandboxError('invalid_argument', 'One of the two is in a session, the other on this machine.', {
      hint: 'Write a path in a session as ID:path, and one here that has a colon as ./a:b.',
    })
  const connection = await connect(options)
  const copied = await waiting(
    'copying',
    target.session === undefined
      ? download(connection, source as Place & { session: string }, target.path)
      : upload(connection, source.path, target as Place & { session: string }),
  )
  for (const name of copied.skipped)
    console.error(`sandkasten: ${JSON.stringify(name)} is not a file; left out.`)
  print(
    options.json,
    copied,
    () => `${copied.files} file${copied.files === 1 ? '' : 's'}, ${sizeText(copied.bytes)}`,
  )
  return 0
}

interface Place {
  session?: string
  path: string
}

export function placeOf(text: string): Place {
  // A name or an id, as `scp` reads hosts: whatever has a slash before its colon is a path here. One letter is a drive.
  const match = /^([^/\\:]{2,200}):(.*)$/s.exec(text)
  return match ? { session: match[1]!, path: match[2]! || '.' } : { path: text }
}

interface Entry {
  name: string
  type: string
  size: number
  mode: number | null
}

async function upload(
  connection: Connection,
  from: string,
  to: Place & { session: string },
): Promise<Copied> {
  const facts = await stat(from)
  const base = `${await connection.session(to.session)}/files`
  const there = await statOf(connection, base, to.path)
  const place =
    there?.type === 'directory' ? path.posix.join(to.path, path.basename(path.resolve(from))) : to.path
  if (!facts.isDirectory()) {
    const query = new URLSearchParams({ path: place, mode: (facts.mode & 0o777).toString(8) })
    const bytes = Readable.toWeb(createReadStream(from)) as ReadableStream<Uint8Array>
    await connection.upload(`${base}?${query}`, bytes)
    return { files: 1, bytes: facts.size, skipped: [] }
  }
  const tar = spawn('tar', ['-c', '-v', '-f', '-', '-C', from, '.'], { stdio: ['ignore', 'pipe', 'pipe'] })
  let [bytes, names] = [0, '']
  tar.stdout.on('data', (chunk: Buffer) => {
    bytes += chunk.length
  })
  tar.stderr.setEncoding('utf8').on('data', (text: string) => {
    names += text
  })
  const ended = once(tar, 'close')
  await connection.upload(
    `${base}/archive?${new URLSearchParams({ path: place })}`,
    Readable.toWeb(tar.stdout) as ReadableStream<Uint8Array>,
  )
  const [code] = await ended
  if (code !== 0)
    throw new SandboxError('provider_error', `tar ended with ${code}: ${names.trim().split('\n').at(-1)}`, {
      hint: 'Not everything could be read.',
    })
  const files = names.split('\n').filter((name) => name !== '' && !name.endsWith('/')).length
  return { files, bytes, skipped: [] }
}

async function download(
  connection: Connection,
  from: Place & { session: string },
  to: string,
): Promise<Copied> {
  const base = `${await connection.session(from.session)}/files`
  const facts = await statOf(connection, base, from.path)
  if (!facts)
    throw new SandboxError('file_not_found', `There is no ${from.path} in the session.`, {
      hint: 'Check the path.',
    })
  const here = await stat(to).catch(() => undefined)
  const name = path.posix.basename(path.posix.resolve('/', from.path)) || from.session
  const place = here?.isDirectory() ? path.join(to, name) : to
  const copied: Copied = { files: 0, bytes: 0, skipped: [] }
  if (facts.type === 'directory') await folder(connection, base, from.path, place, copied)
  else await file(connection, base, from.path, { ...facts, name }, place, copied)
  return copied
}

/**
 * Names that come out of a sandbox are hostile: each is one part of a path or nothing, links are never made, and a folder is made
 * by us before anything is put into it; so nothing lands beside the place that was named.
 */
async function folder(
  connection: Connection,
  base: string,
  from: string,
  to: string,
  copied: Copied,
): Promise<void> {
  await mkdir(to, { recursive: true })
  const query = new URLSearchParams({ path: from })
  const { entries } = await connection.json<{ entries: Entry[] }>('GET', `${base}/list?${query}`)
  for (const entry of entries) {
    const [inside, outside] = [path.posix.join(from, entry.name), path.join(to, entry.name)]
    const plain =
      entry.name !== '' && entry.name !== '.' && entry.name !== '..' && !/[/\\\0]/.test(entry.name)
    if (!plain) copied.skipped.push(entry.name)
    else if (entry.type === 'directory') await folder(connection, base, inside, outside, copied)
    else if (entry.type === 'file') await file(connection, base, inside, entry, outside, copied)
    else copied.skipped.push(inside)
  }
}

/** The file appears whole or not at all; what is in its place is replaced, not written through. */
async function file(
  connection: Connection,
  base: string,
  from: string,
  { mode }: Entry,
  to: string,
  copied: Copied,
): Promise<void> {
  const response = await connection.request('GET', `${base}?${new URLSearchParams({ path: from })}`)
  const part = `${to}.${randomId(8)}.part`
  try {
    const output = createWriteStream(part, { flags: 'wx', mode: (mode ?? 0o644) & 0o777 })
    if (response.body) await pipeline(Readable.fromWeb(response.body as never), output)
    else await new Promise<void>((resolve) => output.end(resolve))
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
    return await connection.json<Entry>('GET', `${base}/stat?${new URLSearchParams({ path: at })}`)
  } catch (error) {
    if (SandboxError.is(error, 'file_not_found')) return undefined
    throw error
  }
}
