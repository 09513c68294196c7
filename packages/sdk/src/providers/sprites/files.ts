import type { FilesDriver } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import { abortable } from '../../shared/calls/abort.ts'
import * as scripts from '../../shared/guest/files.ts'
import { randomId } from '../../shared/ids.ts'
import { concat } from '../../shared/output/bytes.ts'
import type { CallOptions, FileEntry, FileStat, FileType } from '../../spec/index.ts'
import type { Guest } from './guest/guest.ts'

const partBytes = 4 * 1024 * 1024
/** PATH FIRST LENGTH, after `readable`: „version size“, then the bytes from the byte FIRST, counted from 1. */
const readPart = `
[ -f "$1" ] || { [ ! -e "$1" ] || refuse invalid_argument; why "$1"; }
s=$(stat -L -c '%d-%i-%W %s' -- "$1") || exit 1
n=$((\${s##* } - $2 + 1))
[ "$n" -le "$3" ] || n=$3
printf '%s\\n' "$s"
[ "$n" -le 0 ] || tail -c "+$2" -- "$1" | head -c "$n"
`
const no = '-'

/** PATH STAGE: removes the staging folder, which is beside the file or, if the path is a link, beside its target. */
const forget = `
p=$(readlink -f -- "$1")
rm -rf -- "\${1%/*}/$2" "\${p%/*}/$2"
`

/**
 * Files through scripts, whose streams carry the bytes. The vendor's file calls hold whole files in memory, and do not report
 * the status of a failure.
 */
export class SpritesFiles implements FilesDriver {
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
    const part = async (start: number, length: number) => {
      const args = [file, String(start + 1), String(length)]
      const response = await guest.bytes(`${scripts.readable}\n${readPart}`, args, path, signal)
      return partOf(response, start, length)
    }
    const first = await part(range.start, lengthOf(range))
    return partsFrom(first, part, range)
  }

  async write(
    path: string,
    chunks: AsyncIterable<Uint8Array>,
    options: { mode?: number; append: boolean },
    { signal }: CallOptions,
  ): Promise<void> {
    const guest = this.#guest()
    const stage = `.sandkasten-${randomId()}`
    const file = this.#path(path)
    try {
      const target = unpacked(await guest.tell(scripts.place, [file, stage], path, signal))
      const folder = `${target.slice(0, target.lastIndexOf('/'))}/${stage}`
      let count = 0
      for await (const content of parts(chunks, partBytes, signal)) {
        await guest.send(`${folder}/${count}`, content, path, signal)
        count += 1
      }
      const { mode, append } = options
      const args = [target, stage, mode === undefined ? no : octal(mode), append ? 'yes' : no, String(count)]
      await guest.tell(scripts.commit, args, path, signal)
    } catch (error) {
      await guest.run({ script: forget, args: [file, stage] }).catch(() => {})
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
    const [, raw, size, mtime] = /^([0-9a-f]{1,8}) (\d{1,16}) (-?\d{1,12})$/.exec(said.trim()) ?? []
    if (raw === undefined) throw malformed()
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
  const [, mode, size, mtime, type = '', path = ''] =
    /^([0-7]{1,5}) (\d{1,16}) (-?\d{1,12}(?:\.\d+)?) (\S) (.*)$/s.exec(line) ?? []
  if (mode === undefined) throw malformed()
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

function unpacked(base64: string): string {
  const text = base64.trim()
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text) || text.length % 4 !== 0) throw malformed()
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0))
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
}

/** Everything here comes from inside the sandbox. */
function malformed(): SandboxError {
  return new SandboxError('provider_error', 'The response to a file operation has an invalid form.', {
    provider: 'sprites',
  })
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

interface FilePart {
  /** Changes when the file is replaced. */
  readonly version: string
  readonly size: number
  readonly data: Uint8Array
}

/** „version size“ and a newline, then the bytes. */
function partOf(response: Uint8Array, start: number, length: number): FilePart {
  const end = response.indexOf(10)
  const line = new TextDecoder().decode(response.subarray(0, Math.max(0, Math.min(end, 200))))
  const [, version, size] = /^(\S{1,100}) (\d{1,16})$/.exec(line) ?? []
  const data = response.subarray(end + 1)
  if (version === undefined || data.byteLength !== Math.max(0, Math.min(length, Number(size) - start)))
    throw malformed()
  return { version, size: Number(size), data }
}

async function* partsFrom(
  first: FilePart,
  read: (start: number, length: number) => Promise<FilePart>,
  { start, end }: { start: number; end?: number },
): AsyncGenerator<Uint8Array> {
  let at = start
  for (let part = first; ; part = await read(at, lengthOf({ start: at, end }))) {
    if (part.version !== first.version)
      throw new SandboxError('conflict', 'The file was replaced while it was read.', {
        provider: 'sprites',
        hint: 'Read it again.',
      })
    if (part.data.byteLength > 0) yield part.data
    at += part.data.byteLength
    if (part.data.byteLength === 0 || at >= Math.min(end ?? Infinity, part.size)) return
  }
}

function lengthOf({ start, end = Infinity }: { start: number; end?: number }): number {
  return Math.max(0, Math.min(partBytes, end - start))
}
