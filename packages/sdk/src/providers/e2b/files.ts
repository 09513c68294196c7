import type { FilesDriver } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import { abortable } from '../../shared/calls/abort.ts'
import { Silence } from '../../shared/calls/silence-timeout.ts'
import * as scripts from '../../shared/guest/files.ts'
import { randomId } from '../../shared/ids.ts'
import { streamOf } from '../../shared/output/bytes.ts'
import type { CallOptions, FileChange, FileEntry, FileStat } from '../../spec/index.ts'
import type { Guest } from './guest/guest.ts'
import { watched } from './watch.ts'

/**
 * The vendor's file calls stream content. Scripts in the sandbox do everything else, because the vendor's calls do not
 * distinguish a link from its target or a missing parent from a missing file, and do not report why they refuse.
 */
export class E2BFiles implements FilesDriver {
  readonly #guest: () => Guest
  readonly #idleMs: number

  constructor(guest: () => Guest, idleMs: number) {
    this.#guest = guest
    this.#idleMs = idleMs
  }

  async readStream(
    path: string,
    { start, end }: { start: number; end?: number },
    { signal }: CallOptions,
  ): Promise<AsyncIterable<Uint8Array>> {
    const guest = await this.#checked()
    const file = this.#absolute(guest, path)
    const stream = await guest
      .do(({ files }) => files.read(file, { format: 'stream', signal }), signal)
      .catch(async (error: unknown) => {
        // The script finds the precise reason; otherwise report the vendor's error.
        if (
          SandboxError.is(
            error,
            'file_not_found',
            'invalid_argument',
            'provider_error',
            'forbidden',
            'not_found',
          )
        )
          await guest.tell(scripts.readable, [file], path, signal)
        throw error
      })
    return partOf(stream, start, end, {
      next: (reading) => abortable(inTime(reading, this.#idleMs), signal, 'Reading the file'),
      explain: (error) => guest.explain(error, signal),
    })
  }

  async write(
    path: string,
    chunks: AsyncIterable<Uint8Array>,
    { mode, append }: { mode?: number; append: boolean },
    { signal }: CallOptions,
  ): Promise<void> {
    const guest = await this.#checked()
    const file = this.#absolute(guest, path)
    const stage = `.sandkasten-${randomId()}`
    // The vendor writes in place, so a failure would leave a partial file: write a temporary file and rename it.
    const place = decoded(await guest.tell(scripts.place, [file, stage], path, signal))
    const folder = place.slice(0, place.lastIndexOf('/'))
    const silence = new Silence(this.#idleMs, 'e2b', signal)
    const source = new Source(silence.sending(chunks))
    try {
      await guest
        .do(
          ({ files }) => files.write(`${folder}/${stage}/0`, source.stream, { signal: silence.signal }),
          signal,
        )
        .catch((error: unknown) => {
          throw silence.blamed(error)
        })
        .finally(() => silence.rest())
      const octal = mode === undefined ? '-' : mode.toString(8)
      await guest.tell(scripts.commit, [place, stage, octal, append ? 'append' : '-', '1'], path, signal)
    } catch (error) {
      await guest.ask(scripts.forget, [place, stage]).catch(() => {})
      throw source.failure ?? error
    }
  }

  async list(
    path: string,
    { recursive }: { recursive: boolean },
    { signal }: CallOptions,
  ): Promise<FileEntry[]> {
    const said = decoded(await this.#tell(scripts.list, path, [recursive ? '-' : '1'], signal))
    const entries = said
      .split('\0')
      .slice(0, -1)
      .map((line): FileEntry => {
        const [, mode = '', size = '', time = '', type = '', name = ''] =
          /^(\d+) (\d+) ([\d.]+) (\S) ([\s\S]*)$/.exec(line) ?? []
        return {
          name: name.slice(name.lastIndexOf('/') + 1),
          path: name,
          type: type === 'f' ? 'file' : type === 'd' ? 'directory' : type === 'l' ? 'symlink' : 'other',
          size: Number(size),
          mode: Number.parseInt(mode, 8),
          mtimeMs: Number(time) * 1000,
        }
      })
    return entries.sort((a, b) => (a.path < b.path ? -1 : 1))
  }

  async stat(path: string, { follow }: { follow: boolean }, { signal }: CallOptions): Promise<FileStat> {
    const [raw = '', size, seconds] = (
      await this.#tell(scripts.stat, path, [follow ? 'follow' : '-'], signal)
    )
      .trim()
      .split(' ')
    const bits = Number.parseInt(raw, 16)
    return {
      type: types.get(bits >> 12) ?? 'other',
      size: Number(size),
      mode: bits & 0o7777,
      mtimeMs: Number(seconds) * 1000,
    }
  }

  async mkdir(
    path: string,
    { recursive, mode }: { recursive: boolean; mode?: number },
    { signal }: CallOptions,
  ): Promise<void> {
    const octal = mode === undefined ? '-' : mode.toString(8)
    await this.#tell(scripts.mkdir, path, [recursive ? 'recursive' : '-', octal], signal)
  }

  async rename(from: string, to: string, { signal }: CallOptions): Promise<void> {
    const guest = await this.#checked()
    const args = [this.#absolute(guest, from), this.#absolute(guest, to)]
    await guest.tell(scripts.rename, args, `${from} → ${to}`, signal)
  }

  async rm(
    path: string,
    { recursive, force }: { recursive: boolean; force: boolean },
    { signal }: CallOptions,
  ): Promise<void> {
    await this.#tell(scripts.rm, path, [recursive ? 'recursive' : '-', force ? 'force' : '-'], signal)
  }

  async chmod(path: string, mode: number, { signal }: CallOptions): Promise<void> {
    await this.#tell(scripts.chmod, path, [mode.toString(8)], signal)
  }

  async symlink(target: string, path: string, { signal }: CallOptions): Promise<void> {
    const guest = await this.#checked()
    await guest.tell(scripts.symlink, [target, this.#absolute(guest, path)], path, signal)
  }

  async readlink(path: string, { signal }: CallOptions): Promise<string> {
    return decoded(await this.#tell(scripts.readlink, path, [], signal))
  }

  async watch(
    path: string,
    { recursive }: { recursive: boolean },
    { signal }: CallOptions,
  ): Promise<AsyncIterable<FileChange>> {
    const guest = await this.#checked()
    const file = this.#absolute(guest, path)
    const { type } = await this.stat(path, { follow: true }, { signal })
    return watched(guest, file, { recursive, folder: type === 'directory' }, signal)
  }

  async #tell(
    script: string,
    path: string,
    args: string[],
    signal: AbortSignal | undefined,
  ): Promise<string> {
    const guest = await this.#checked()
    return guest.tell(script, [this.#absolute(guest, path), ...args], path, signal)
  }

  async #checked(): Promise<Guest> {
    const guest = this.#guest()
    await guest.check()
    return guest
  }

  #absolute({ incarnation }: Guest, path: string): string {
    const absolute = path.startsWith('/') ? path : `${incarnation.workdir}/${path}`
    if (absolute.split('/').some((name) => new TextEncoder().encode(name).byteLength > 255))
      throw new SandboxError('invalid_argument', 'A component of the path has more than 255 bytes.', {
        provider: 'e2b',
      })
    return absolute
  }
}

/** File types by the upper digits of a raw mode. */
const types: ReadonlyMap<number, FileStat['type']> = new Map([
  [0o10, 'file'],
  [0o04, 'directory'],
  [0o12, 'symlink'],
])

function decoded(base64: string): string {
  return new TextDecoder().decode(Uint8Array.from(atob(base64.trim()), (letter) => letter.charCodeAt(0)))
}

/** Records an error of the caller's source, so that the write reports it. */
class Source {
  failure: unknown
  readonly stream: ReadableStream<Uint8Array>

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.stream = streamOf(this.#watched(chunks))
  }

  async *#watched(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    try {
      yield* chunks
    } catch (error) {
      this.failure = error
      throw error
    }
  }
}

/** The vendor always sends whole files: skips the bytes before the range, and stops after it. */
async function* partOf(
  stream: ReadableStream<Uint8Array>,
  start: number,
  end: number | undefined,
  {
    next,
    explain,
  }: {
    next: <T>(reading: Promise<T>) => Promise<T>
    explain: (error: unknown) => Promise<unknown>
  },
): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader()
  let at = 0
  let whole = false
  try {
    while (end === undefined || at < end) {
      const { done, value } = await next(reader.read())
      if (done) {
        whole = true
        return
      }
      const from = Math.max(0, start - at)
      const to = end === undefined ? value.byteLength : Math.min(value.byteLength, end - at)
      at += value.byteLength
      if (from < to) yield value.subarray(from, to)
    }
  } catch (error) {
    throw await explain(error)
  } finally {
    // Do not await: a hanging stream may never return.
    if (!whole) reader.cancel().catch(() => {})
  }
}

/** Our own idle timeout. The SDK's can be garbage-collected before it aborts, and the read would hang. */
async function inTime<T>(reading: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () =>
        reject(
          new SandboxError('timeout', `E2B sent no data of the file for ${ms} ms.`, { provider: 'e2b' }),
        ),
      ms,
    )
  })
  reading.catch(() => {})
  try {
    return await Promise.race([reading, late])
  } finally {
    clearTimeout(timer)
  }
}
