import type { FilesDriver } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import { abortable } from '../../shared/calls/abort.ts'
import * as scripts from '../../shared/guest/files.ts'
import { randomId } from '../../shared/ids.ts'
import { concat } from '../../shared/output/bytes.ts'
import type { CallOptions, FileEntry, FileStat, FileType } from '../../spec/index.ts'
import type { Guest } from './guest/guest.ts'

/** The vendor buffers an upload completely, so long files are sent in parts. */
const partBytes = 4 * 1024 * 1024
const no = '-'

/** Files through the vendor's read and write calls, and through scripts for all other operations. */
export class VercelFiles implements FilesDriver {
  readonly #guest: () => Guest
  readonly #workdir: string

  constructor(guest: () => Guest, workdir: string) {
    this.#guest = guest
    this.#workdir = workdir
  }

  async readStream(
    path: string,
    range: { start: number; end?: number },
    { signal }: CallOptions,
  ): Promise<AsyncIterable<Uint8Array>> {
    const guest = this.#guest()
    const file = this.#path(path)
    await guest.tell(scripts.readable, [file], path, signal)
    const stream = await guest.do((session) => session.readFile({ path: file }, { signal }), signal)
    if (stream === null)
      throw new SandboxError('file_not_found', `The file or folder does not exist: ${path}`)
    return part(stream, range, (error) => guest.do(() => Promise.reject(error), signal))
  }

  async write(
    path: string,
    chunks: AsyncIterable<Uint8Array>,
    options: { mode?: number; append: boolean },
    { signal }: CallOptions,
  ): Promise<void> {
    const guest = this.#guest()
    const stage = `.sandkasten-${randomId()}`
    const target = unpacked(await guest.tell(scripts.place, [this.#path(path), stage], path, signal))
    const folder = `${target.slice(0, target.lastIndexOf('/'))}/${stage}`
    try {
      let count = 0
      for await (const content of parts(chunks, partBytes, signal)) {
        const file = { path: `${folder}/${count}`, content }
        await guest.do((session) => session.writeFiles([file], { signal }), signal)
        count += 1
      }
      const { mode, append } = options
      const args = [target, stage, mode === undefined ? no : octal(mode), append ? 'yes' : no, String(count)]
      await guest.tell(scripts.commit, args, path, signal)
    } catch (error) {
      await guest.ask(scripts.forget, [target, stage]).catch(() => {})
      throw error
    }
  }

  async list(
    path: string,
    { recursive }: { recursive: boolean },
    { signal }: CallOptions,
  ): Promise<FileEntry[]> {
    const said = await this.#guest().tell(
      scripts.list,
      [this.#path(path), recursive ? no : '1'],
      path,
      signal,
    )
    return unpacked(said)
      .split('\0')
      .slice(0, -1)
      .map(entryOf)
      .sort((a, b) => (a.path < b.path ? -1 : 1))
  }

  async stat(path: string, { follow }: { follow: boolean }, { signal }: CallOptions): Promise<FileStat> {
    const said = await this.#guest().tell(scripts.stat, [this.#path(path), follow ? 'yes' : no], path, signal)
    const [raw = '', size, mtime] = said.trim().split(' ')
    const bits = Number.parseInt(raw, 16)
    return {
      type: types[bits & 0o170000] ?? 'other',
      size: Number(size),
      mode: bits & 0o7777,
      mtimeMs: Number(mtime) * 1000,
    }
  }

  async mkdir(
    path: string,
    { recursive, mode }: { recursive: boolean; mode?: number },
    { signal }: CallOptions,
  ): Promise<void> {
    const args = [this.#path(path), recursive ? 'yes' : no, mode === undefined ? no : octal(mode)]
    await this.#guest().tell(scripts.mkdir, args, path, signal)
  }

  async rename(from: string, to: string, { signal }: CallOptions): Promise<void> {
    await this.#guest().tell(scripts.rename, [this.#path(from), this.#path(to)], `${from} → ${to}`, signal)
  }

  async rm(
    path: string,
    { recursive, force }: { recursive: boolean; force: boolean },
    { signal }: CallOptions,
  ): Promise<void> {
    const args = [this.#path(path), recursive ? 'yes' : no, force ? 'yes' : no]
    await this.#guest().tell(scripts.rm, args, path, signal)
  }

  async chmod(path: string, mode: number, { signal }: CallOptions): Promise<void> {
    await this.#guest().tell(scripts.chmod, [this.#path(path), octal(mode)], path, signal)
  }

  async symlink(target: string, path: string, { signal }: CallOptions): Promise<void> {
    await this.#guest().tell(scripts.symlink, [target, this.#path(path)], path, signal)
  }

  async readlink(path: string, { signal }: CallOptions): Promise<string> {
    return unpacked(await this.#guest().tell(scripts.readlink, [this.#path(path)], path, signal))
  }

  /** Does not normalize the path: `..` after a link depends on the link. Removes a trailing slash, which would follow a link. */
  #path(path: string): string {
    const encoder = new TextEncoder()
    if (
      path.split('/').some((name) => encoder.encode(name).byteLength > 255) ||
      encoder.encode(path).byteLength > 4000
    )
      throw new SandboxError('invalid_argument', `The path is too long: ${path.slice(0, 100)}…`)
    return resolved(this.#workdir, path)
  }
}

export function resolved(workdir: string, path: string): string {
  const whole = path.startsWith('/') ? path : `${workdir}/${path}`
  return whole.replace(/(?<=.)\/+$/, '')
}

const types: Readonly<Record<number, FileType>> = { 32768: 'file', 16384: 'directory', 40960: 'symlink' }
const letters: Readonly<Record<string, FileType>> = { f: 'file', d: 'directory', l: 'symlink' }

function entryOf(line: string): FileEntry {
  const [, mode = '', size, mtime, type = '', path = ''] = /^(\S+) (\S+) (\S+) (\S) (.*)$/s.exec(line) ?? []
  return {
    name: path.slice(path.lastIndexOf('/') + 1),
    path,
    type: letters[type] ?? 'other',
    size: Number(size),
    mode: Number.parseInt(mode, 8),
    mtimeMs: Math.round(Number(mtime) * 1000),
  }
}

function octal(mode: number): string {
  return mode.toString(8).padStart(4, '0')
}

export function unpacked(base64: string): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytesOf(base64))
}

export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64.trim()), (char) => char.charCodeAt(0))
}

/** Combines chunks to parts of this size. Waiting for the source can be cancelled. */
async function* parts(
  chunks: AsyncIterable<Uint8Array>,
  size: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const source = chunks[Symbol.asyncIterator]()
  let waiting: Uint8Array[] = []
  let bytes = 0
  try {
    for (;;) {
      const { done, value } = await abortable(source.next(), signal, 'The write')
      if (done) break
      waiting.push(value)
      bytes += value.byteLength
      if (bytes < size) continue
      yield concat(waiting)
      waiting = []
      bytes = 0
    }
    if (bytes > 0) yield concat(waiting)
  } finally {
    void source.return?.()?.catch(() => {})
  }
}

/** A part of a file, held in memory. */
async function* part(
  stream: AsyncIterable<unknown>,
  { start, end = Infinity }: { start: number; end?: number },
  explained: (error: unknown) => Promise<never>,
): AsyncGenerator<Uint8Array> {
  let at = 0
  const iterator = stream[Symbol.asyncIterator]()
  try {
    for (;;) {
      if (at >= end) return
      const { done, value } = await iterator.next().catch(explained)
      if (done) return
      const chunk = value as Uint8Array
      const [from, to] = [Math.max(start - at, 0), Math.min(end - at, chunk.byteLength)]
      at += chunk.byteLength
      if (from < to) yield chunk.subarray(from, to)
    }
  } finally {
    await iterator.return?.()
  }
}
