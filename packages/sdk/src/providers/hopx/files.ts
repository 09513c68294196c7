import type { FilesDriver } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import { abortable } from '../../shared/calls/abort.ts'
import * as scripts from '../../shared/guest/files.ts'
import { randomId } from '../../shared/ids.ts'
import { concat } from '../../shared/output/bytes.ts'
import type { CallOptions, FileEntry, FileStat, FileType } from '../../spec/index.ts'
import { bytesOf, type Guest, partBytes, unpacked } from './guest/guest.ts'
import { adopt, page, unpack } from './guest/scripts.ts'

const pageBytes = 1024 * 1024
/** Travels in the variable of a command, which Linux limits to 128 KiB. */
const smallBytes = 64 * 1024
const no = '-'

/**
 * Scripts in the sandbox do everything but uploads: the vendor's file calls follow links, know no ranges, and distinguish
 * two errors.
 */
export class HopxFiles implements FilesDriver {
  readonly #guest: (call: CallOptions) => Promise<Guest>

  constructor(guest: (call: CallOptions) => Promise<Guest>) {
    this.#guest = guest
  }

  async readStream(
    path: string,
    { start, end = Infinity }: { start: number; end?: number },
    call: CallOptions,
  ): Promise<AsyncIterable<Uint8Array>> {
    const guest = await this.#guest(call)
    const file = pathIn(guest, path)
    const read = async (at: number) => {
      const length = Math.max(0, Math.min(pageBytes, end - at))
      const data = bytesOf(await guest.tell(page, [file, String(at), String(length)], path, call))
      return { data, more: data.byteLength === length && length > 0 }
    }
    return pages(await read(start), start, read)
  }

  async write(
    path: string,
    chunks: AsyncIterable<Uint8Array>,
    options: { mode?: number; append: boolean },
    call: CallOptions,
  ): Promise<void> {
    const guest = await this.#guest(call)
    const stage = `.sandkasten-${randomId()}`
    const target = unpacked(await guest.tell(scripts.place, [pathIn(guest, path), stage], path, call))
    const mode = options.mode === undefined ? no : octal(options.mode)
    const args = (count: number) => [target, stage, mode, options.append ? 'yes' : no, String(count)]
    try {
      let count = 0
      let small: Uint8Array | undefined
      for await (const part of parts(chunks, partBytes, call.signal)) {
        if (count === 0 && part.byteLength <= smallBytes) {
          small = part
          break
        }
        const name = await guest.upload(part, call)
        await guest.tell(adopt, [target, stage, String(count), name, String(part.byteLength)], path, call)
        count += 1
      }
      if (small === undefined) await guest.tell(scripts.commit, args(count), path, call)
      else {
        const env = { SANDKASTEN_DATA: Buffer.from(small).toString('base64') }
        await guest.tell(`${unpack}\n${scripts.commit}`, args(1), path, { ...call, env })
      }
    } catch (error) {
      await guest.tell(scripts.forget, [target, stage], path).catch(() => {})
      throw error
    }
  }

  async list(path: string, { recursive }: { recursive: boolean }, call: CallOptions): Promise<FileEntry[]> {
    const said = await this.#tell(scripts.list, path, [recursive ? no : '1'], call)
    return unpacked(said)
      .split('\0')
      .slice(0, -1)
      .map(entryOf)
      .sort((a, b) => (a.path < b.path ? -1 : 1))
  }

  async stat(path: string, { follow }: { follow: boolean }, call: CallOptions): Promise<FileStat> {
    const said = await this.#tell(scripts.stat, path, [follow ? 'yes' : no], call)
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
    call: CallOptions,
  ): Promise<void> {
    const args = [recursive ? 'yes' : no, mode === undefined ? no : octal(mode)]
    await this.#tell(scripts.mkdir, path, args, call)
  }

  async rename(from: string, to: string, call: CallOptions): Promise<void> {
    const guest = await this.#guest(call)
    const args = [pathIn(guest, from), pathIn(guest, to)]
    await guest.tell(scripts.rename, args, `${from} → ${to}`, call)
  }

  async rm(
    path: string,
    { recursive, force }: { recursive: boolean; force: boolean },
    call: CallOptions,
  ): Promise<void> {
    await this.#tell(scripts.rm, path, [recursive ? 'yes' : no, force ? 'yes' : no], call)
  }

  async chmod(path: string, mode: number, call: CallOptions): Promise<void> {
    await this.#tell(scripts.chmod, path, [octal(mode)], call)
  }

  async symlink(target: string, path: string, call: CallOptions): Promise<void> {
    const guest = await this.#guest(call)
    await guest.tell(scripts.symlink, [target, pathIn(guest, path)], path, call)
  }

  async readlink(path: string, call: CallOptions): Promise<string> {
    return unpacked(await this.#tell(scripts.readlink, path, [], call))
  }

  async #tell(script: string, path: string, args: readonly string[], call: CallOptions): Promise<string> {
    const guest = await this.#guest(call)
    return guest.tell(script, [pathIn(guest, path), ...args], path, call)
  }
}

export function resolved(workdir: string, path: string): string {
  const whole = path.startsWith('/') ? path : `${workdir}/${path}`
  return whole.replace(/(?<=.)\/+$/, '')
}

/** Does not normalize the path: `..` after a link depends on the link. Removes a trailing slash, which would follow a link. */
function pathIn({ workdir }: Guest, path: string): string {
  const encoder = new TextEncoder()
  const tooLong =
    path.split('/').some((name) => encoder.encode(name).byteLength > 255) ||
    encoder.encode(path).byteLength > 4000
  if (!tooLong) return resolved(workdir, path)
  throw new SandboxError('invalid_argument', `The path is too long: ${path.slice(0, 100)}…`, {
    provider: 'hopx',
  })
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

interface Page {
  readonly data: Uint8Array
  readonly more: boolean
}

async function* pages(
  first: Page,
  start: number,
  read: (at: number) => Promise<Page>,
): AsyncGenerator<Uint8Array> {
  let at = start
  for (let { data, more } = first; ; { data, more } = await read(at)) {
    at += data.byteLength
    if (data.byteLength > 0) yield data
    if (!more) return
  }
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
