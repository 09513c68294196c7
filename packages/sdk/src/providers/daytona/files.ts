import type { FilesDriver } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import { abortedError } from '../../shared/calls/abort.ts'
import type { Silence } from '../../shared/calls/silence-timeout.ts'
import { randomId } from '../../shared/ids.ts'
import { concat } from '../../shared/output/bytes.ts'
import type { CallOptions, FileEntry, FileStat, FileType } from '../../spec/index.ts'
import { fromBase64 } from './base64.ts'
import { translated } from './errors.ts'
import { type Incarnation, mostInputBytes } from './incarnation.ts'

/** How many bytes one response carries. Longer files are streamed with the vendor's own call. */
const pageBytes = 256 * 1024

/** The agent handles metadata and small content, because it reports precise errors. The vendor's streams carry large content. */
export class DaytonaFiles implements FilesDriver {
  readonly #incarnation: Incarnation

  constructor(incarnation: Incarnation) {
    this.#incarnation = incarnation
  }

  async readStream(
    path: string,
    range: { start: number; end?: number },
    call: CallOptions,
  ): Promise<AsyncIterable<Uint8Array>> {
    const first = await this.#page(path, range.start, most(range), call)
    const whole = range.start === 0 && range.end === undefined
    if (whole && first.size > 4 * pageBytes) return this.#download(path, first.size, call)
    return this.#pages(path, first, range, call)
  }

  async write(
    path: string,
    chunks: AsyncIterable<Uint8Array>,
    { mode, append }: { mode?: number; append: boolean },
    call: CallOptions,
  ): Promise<void> {
    const facts = [mode === undefined ? '' : mode.toString(8), append ? '1' : '']
    const source = chunks[Symbol.asyncIterator]()
    const parts: Uint8Array[] = []
    let size = 0
    for (;;) {
      const { done, value } = await source.next()
      if (done) {
        await this.#incarnation.ask(['put', path, ...facts, ''], { ...call, input: concat(parts) })
        return
      }
      parts.push(value)
      size += value.byteLength
      if (size > mostInputBytes) break
    }
    await this.#writeLarge(path, facts, rejoined(parts, source), call)
  }

  async list(path: string, { recursive }: { recursive: boolean }, call: CallOptions): Promise<FileEntry[]> {
    const lines = await this.#incarnation.ask(['ls', path, recursive ? '1' : ''], call)
    return lines.map((line) => {
      const [encoded, ...facts] = line.split(' ')
      const found = text(encoded!)
      return { name: found.slice(found.lastIndexOf('/') + 1), path: found, ...statOf(facts) }
    })
  }

  async stat(path: string, { follow }: { follow: boolean }, call: CallOptions): Promise<FileStat> {
    const [line] = await this.#incarnation.ask(['stat', path, follow ? '1' : ''], call)
    return statOf(line!.split(' '))
  }

  async mkdir(
    path: string,
    { recursive, mode }: { recursive: boolean; mode?: number },
    call: CallOptions,
  ): Promise<void> {
    const bits = mode === undefined ? '' : mode.toString(8)
    await this.#incarnation.ask(['mkdir', path, recursive ? '1' : '', bits], call)
  }

  async rename(from: string, to: string, call: CallOptions): Promise<void> {
    await this.#incarnation.ask(['rename', from, to], call)
  }

  async rm(
    path: string,
    { recursive, force }: { recursive: boolean; force: boolean },
    call: CallOptions,
  ): Promise<void> {
    await this.#incarnation.ask(['rm', path, recursive ? '1' : '', force ? '1' : ''], call)
  }

  async chmod(path: string, mode: number, call: CallOptions): Promise<void> {
    await this.#incarnation.ask(['chmod', path, mode.toString(8)], call)
  }

  async symlink(target: string, path: string, call: CallOptions): Promise<void> {
    await this.#incarnation.ask(['symlink', target, path], call)
  }

  async readlink(path: string, call: CallOptions): Promise<string> {
    const [line] = await this.#incarnation.ask(['readlink', path], call)
    return text(line!)
  }

  async #page(path: string, start: number, length: number, call: CallOptions) {
    const [line] = await this.#incarnation.ask(['read', path, String(start), String(length)], call)
    const [size, data = ''] = line!.split(' ')
    return { size: Number(size), data: fromBase64(data) }
  }

  async *#pages(
    path: string,
    first: { data: Uint8Array },
    range: { start: number; end?: number },
    call: CallOptions,
  ): AsyncGenerator<Uint8Array> {
    let at = range.start
    for (
      let { data } = first;
      data.byteLength > 0;
      { data } = await this.#page(path, at, most({ ...range, start: at }), call)
    ) {
      at += data.byteLength
      yield data
      if (range.end !== undefined && at >= range.end) return
    }
  }

  /** Throws if the stream ends early. */
  async #download(path: string, size: number, call: CallOptions): Promise<AsyncIterable<Uint8Array>> {
    const { sandbox } = this.#incarnation
    const what = `Reading ${path}`
    const full = path.startsWith('/') ? path : `${this.#incarnation.workdir}/${path}`
    const silence = this.#incarnation.silence(call)
    const failure = (error: unknown) => this.#failure(silence.blamed(error), what, call)
    silence.listen()
    try {
      const stream = await sandbox.fs.downloadFileStream(full, { signal: silence.signal })
      return checked(stream, size, silence, failure)
    } catch (error) {
      throw failure(error)
    } finally {
      silence.rest()
    }
  }

  async #writeLarge(
    path: string,
    facts: readonly string[],
    chunks: AsyncIterable<Uint8Array>,
    call: CallOptions,
  ): Promise<void> {
    const [line] = await this.#incarnation.ask(['prepare', path, randomId()], call)
    const part = text(line!)
    // Errors of the caller's source are rethrown unchanged.
    const watched = new Watched(chunks)
    try {
      await this.#incarnation.stream(watched.chunks(), part, call)
      await this.#incarnation.ask(['put', path, ...facts, part], call)
    } catch (error) {
      await this.#incarnation.ask(['rm', part, '', '1']).catch(() => {})
      if (watched.failed) throw watched.error
      throw this.#failure(error, `Writing ${path}`, call)
    }
  }

  #failure(error: unknown, what: string, { signal }: CallOptions): SandboxError {
    if (signal?.aborted) return abortedError(signal, what)
    return translated(error, what, this.#incarnation.id)
  }
}

class Watched {
  readonly #source: AsyncIterable<Uint8Array>
  failed = false
  error: unknown

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source
  }

  async *chunks(): AsyncGenerator<Uint8Array> {
    try {
      yield* this.#source
    } catch (error) {
      this.failed = true
      this.error = error
      throw error
    }
  }
}

async function* rejoined(parts: readonly Uint8Array[], rest: AsyncIterator<Uint8Array>) {
  let finished = false
  try {
    yield* parts
    for (;;) {
      const { done, value } = await rest.next()
      finished = done === true
      if (done) return
      yield value
    }
  } finally {
    if (!finished) await rest.return?.()
  }
}

async function* checked(
  stream: AsyncIterable<Uint8Array>,
  size: number,
  silence: Silence,
  failure: (error: unknown) => SandboxError,
): AsyncGenerator<Uint8Array> {
  let got = 0
  try {
    silence.listen()
    for await (const chunk of stream) {
      got += chunk.byteLength
      silence.rest()
      yield chunk
      silence.listen()
    }
  } catch (error) {
    const known = failure(error)
    // After the first bytes, every parser or socket error means a truncated file.
    if (known.code !== 'provider_error') throw known
  } finally {
    silence.rest()
  }
  if (got < size)
    throw new SandboxError('connection_lost', `The file ended after ${got} of ${size} bytes.`, {
      provider: 'daytona',
      hint: 'Read it again.',
    })
}

function most({ start, end }: { start: number; end?: number }): number {
  return end === undefined ? pageBytes : Math.min(pageBytes, Math.max(0, end - start))
}

function statOf([type, size, mode, mtime]: readonly string[]): FileStat {
  return {
    type: types[type!] ?? 'other',
    size: Number(size),
    mode: Number(mode),
    mtimeMs: Number(mtime) * 1000,
  }
}

const types: Readonly<Record<string, FileType>> = { f: 'file', d: 'directory', l: 'symlink', o: 'other' }

function text(encoded: string): string {
  return new TextDecoder().decode(fromBase64(encoded))
}
