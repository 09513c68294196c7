import { SandboxError } from '../errors.ts'
import { chunksOf, concat, isBytesSource, streamOf } from '../shared/output/bytes.ts'
import type {
  Bytes,
  BytesSource,
  CallOptions,
  FileChange,
  FileEntry,
  FileStat,
  FileType,
} from '../spec/index.ts'
import { bodyOf, type Http, type RequestOptions } from './http.ts'
import { serverEvents } from './server-events.ts'

/** Content up to this size is sent as one body, because not every browser can stream uploads. */
const wholeBytes = 1024 * 1024

/** The files of a session. Relative paths start at its working directory. */
export class SessionFiles {
  readonly #http: Http
  readonly #path: string
  readonly #headers: () => Record<string, string>

  constructor(http: Http, sessionPath: string, headers: () => Record<string, string>) {
    this.#http = http
    this.#path = `${sessionPath}/files`
    this.#headers = headers
  }

  async read(path: string, options: CallOptions = {}): Promise<Bytes> {
    const chunks: Uint8Array[] = []
    for await (const chunk of await this.readChunks(path, {}, options)) chunks.push(chunk)
    return concat(chunks)
  }

  async readStream(
    path: string,
    { start = 0, end, ...call }: CallOptions & { start?: number; end?: number } = {},
  ): Promise<ReadableStream<Uint8Array>> {
    return streamOf(await this.readChunks(path, { start, end }, call))
  }

  /** Rejects at once when the file does not exist. The iteration throws when the transfer breaks off. */
  async readChunks(
    path: string,
    { start = 0, end }: { start?: number; end?: number },
    { signal }: CallOptions = {},
  ): Promise<AsyncIterable<Uint8Array>> {
    if (end !== undefined && end <= start) {
      await this.#refuseMissing(path, signal)
      return none()
    }
    const whole = start === 0 && end === undefined
    const headers: Record<string, string> = whole
      ? {}
      : { range: `bytes=${start}-${end === undefined ? '' : end - 1}` }
    try {
      return await this.#http.chunks(this.#path, this.#with({ query: { path }, headers, signal }))
    } catch (error) {
      // Reading beyond the end yields nothing.
      if (!whole && SandboxError.is(error, 'invalid_argument') && typeof error.details.size === 'number')
        return none()
      throw error
    }
  }

  /** Creates parent folders. The write is atomic, unless `append` is set. */
  async write(
    path: string,
    data: BytesSource,
    options: CallOptions & { mode?: number | undefined; append?: boolean | undefined } = {},
  ): Promise<void> {
    if (!isBytesSource(data))
      throw new SandboxError(
        'invalid_argument',
        `The content of ${path} is neither text, bytes nor a stream.`,
        {
          hint: 'Pass a string, a Uint8Array, a ReadableStream or an async iterable.',
        },
      )
    const { mode, append, signal } = options
    const query = { path, mode: mode?.toString(8), append }
    const source = chunksOf(data)
    const { chunks, more } = await begin(source)
    if (!more) return this.#done('PUT', '', { query, body: concat(chunks), signal })
    let failure: { error: unknown } | undefined
    const all = async function* () {
      try {
        yield* chunks
        yield* source
      } catch (error) {
        failure = { error }
        throw error
      }
    }
    try {
      await this.#done('PUT', '', { query, body: streamOf(all()), signal })
    } catch (error) {
      // fetch only says that the body failed; report the error of the source instead.
      throw failure ? failure.error : error
    }
  }

  async list(
    path = '.',
    options: CallOptions & { recursive?: boolean | undefined } = {},
  ): Promise<FileEntry[]> {
    const query = { path, recursive: options.recursive }
    const answer = await this.#json<{ entries: Array<WireStat & { name: string; path: string }> }>(
      'GET',
      '/list',
      { query, signal: options.signal },
    )
    return answer.entries.map((entry) => ({ name: entry.name, path: entry.path, ...statOf(entry) }))
  }

  /** `target` is set for a symbolic link that was not followed. */
  async stat(
    path: string,
    options: CallOptions & { follow?: boolean | undefined } = {},
  ): Promise<FileStat & { target?: string }> {
    const query = { path, follow: options.follow }
    const answer = await this.#json<WireStat>('GET', '/stat', { query, signal: options.signal })
    return { ...statOf(answer), target: answer.target }
  }

  mkdir(
    path: string,
    options: CallOptions & { recursive?: boolean | undefined; mode?: number | undefined } = {},
  ): Promise<void> {
    const { signal, ...rest } = options
    return this.#done('POST', '/mkdir', { json: { path, ...rest }, signal })
  }

  /** Replaces an existing file. */
  move(from: string, to: string, options: CallOptions = {}): Promise<void> {
    return this.#done('POST', '/move', { json: { from, to }, signal: options.signal })
  }

  remove(
    path: string,
    options: CallOptions & { recursive?: boolean | undefined; force?: boolean | undefined } = {},
  ): Promise<void> {
    const { signal, recursive = false, force = false } = options
    return this.#done('DELETE', '', { query: { path, recursive, force }, signal })
  }

  chmod(path: string, mode: number, options: CallOptions = {}): Promise<void> {
    return this.#done('POST', '/chmod', { json: { path, mode }, signal: options.signal })
  }

  symlink(target: string, path: string, options: CallOptions = {}): Promise<void> {
    return this.#done('POST', '/symlink', { json: { target, path }, signal: options.signal })
  }

  /** Resolves when changes are being recorded. Ends with the signal or `break`. */
  async watch(
    path = '.',
    options: CallOptions & { recursive?: boolean | undefined } = {},
  ): Promise<AsyncIterable<FileChange>> {
    const { signal } = options
    const query = { path, recursive: options.recursive }
    const events = serverEvents(await this.#send('GET', '/watch', { query, signal }), signal)
    for (;;) {
      const { done, value } = await events.next()
      if (done)
        throw new SandboxError('connection_lost', 'The connection to the watch was lost before it started.')
      if (value.event === 'ready') break
    }
    return changesOf(events)
  }

  /** A folder as a tar archive. */
  async pack(path = '.', options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const response = await this.#send('GET', '/archive', { query: { path }, signal: options.signal })
    return streamOf(bodyOf(response, options.signal))
  }

  /** Unpacks a tar archive into a folder, which is created if needed. */
  async unpack(
    data: Uint8Array | ReadableStream<Uint8Array>,
    path = '.',
    options: CallOptions & { gzip?: boolean } = {},
  ): Promise<void> {
    const query = { path, gzip: options.gzip }
    await this.#done('PUT', '/archive', { query, body: data, signal: options.signal })
  }

  async #refuseMissing(path: string, signal: AbortSignal | undefined): Promise<void> {
    const { type } = await this.stat(path, { signal })
    if (type === 'directory') throw new SandboxError('is_a_directory', `${path} is a folder.`)
  }

  #send(method: string, route: string, options: RequestOptions): Promise<Response> {
    return this.#http.send(method, `${this.#path}${route}`, this.#with(options))
  }

  #json<T>(method: string, route: string, options: RequestOptions): Promise<T> {
    return this.#http.json<T>(method, `${this.#path}${route}`, this.#with(options))
  }

  #done(method: string, route: string, options: RequestOptions): Promise<void> {
    return this.#http.done(method, `${this.#path}${route}`, this.#with(options))
  }

  #with(options: RequestOptions): RequestOptions {
    return { ...options, headers: { ...this.#headers(), ...options.headers } }
  }
}

interface WireStat {
  type: FileType
  size: number
  mode: number | null
  mtime_ms: number | null
  target?: string
}

function statOf({ type, size, mode, mtime_ms: mtimeMs }: WireStat): FileStat {
  return { type, size, mode: mode ?? undefined, mtimeMs: mtimeMs ?? undefined }
}

/** Reads the first chunks of a source; `more` when it did not end with them. */
async function begin(source: AsyncGenerator<Uint8Array>) {
  const chunks: Uint8Array[] = []
  for (let size = 0; size <= wholeBytes; ) {
    const { done, value } = await source.next()
    if (done) return { chunks, more: false }
    chunks.push(value)
    size += value.byteLength
  }
  return { chunks, more: true }
}

async function* changesOf(
  events: AsyncGenerator<{ event: string; data: FileChange }>,
): AsyncGenerator<FileChange> {
  for await (const { event, data } of events) if (event === 'change') yield data
}

async function* none(): AsyncGenerator<Uint8Array> {}
