import { SandboxError } from '../errors.ts'
import { abortable, throwIfAborted } from '../shared/calls/abort.ts'
import { asBytes, chunksOf, concat, streamOf } from '../shared/output/bytes.ts'
import type {
  Bytes,
  BytesSource,
  CallOptions,
  Capabilities,
  FileChange,
  FileEntry,
  FileLines,
  FileStat,
  ListOptions,
  MkdirOptions,
  ReadFileOptions,
  ReadLinesOptions,
  ReadStreamOptions,
  RmOptions,
  SandboxFilesCore,
  SandboxFilesWatch,
  WatchOptions,
  WriteFileOptions,
} from '../spec/index.ts'
import type { FilesDriver } from './driver.ts'
import { checkRange, linesOf } from './read-lines.ts'
import { unsupported } from './supports.ts'
import { checkKnown, checkMode, checkPath, checkSource, invalid } from './validate.ts'

const defaultMaxReadBytes = 256 * 1024 * 1024

export class DriverFiles implements SandboxFilesCore, SandboxFilesWatch {
  readonly #driver: FilesDriver
  readonly #owner: { provider: string; capabilities: Capabilities }

  constructor(driver: FilesDriver, owner: { provider: string; capabilities: Capabilities }) {
    this.#driver = driver
    this.#owner = owner
  }

  readFile(path: string, options?: ReadFileOptions & { encoding?: undefined }): Promise<Bytes>
  readFile(path: string, options: 'utf8' | (ReadFileOptions & { encoding: 'utf8' })): Promise<string>
  async readFile(path: string, options: 'utf8' | ReadFileOptions = {}): Promise<Bytes | string> {
    const {
      encoding,
      maxBytes = defaultMaxReadBytes,
      signal,
    } = typeof options === 'string' ? { encoding: options } : options
    if (encoding !== undefined && encoding !== 'utf8')
      throw invalid(
        `The encoding ${String(encoding)} is not supported.`,
        "Use 'utf8', or omit the encoding to get bytes.",
      )
    const chunks: Uint8Array[] = []
    let size = 0
    for await (const chunk of await this.#driver.readStream(checkPath(path), { start: 0 }, { signal })) {
      throwIfAborted(signal, 'Reading the file')
      size += chunk.byteLength
      if (size > maxBytes) {
        throw new SandboxError('too_large', `The file ${path} is larger than ${maxBytes} bytes.`, {
          hint: {
            sdk: 'Use files.readStream(), or raise maxBytes.',
            http: 'Use GET /v1/sessions/{id}/files, which streams, or raise max_bytes.',
            cli: 'Copy it with sandkasten cp, which takes any size.',
          },
          details: { maxBytes },
        })
      }
      chunks.push(chunk)
    }
    const bytes = chunks.length === 1 ? asBytes(chunks[0] as Uint8Array<ArrayBuffer>) : concat(chunks)
    return encoding === 'utf8' ? bytes.toString('utf8') : bytes
  }

  readFileOrNull(path: string, options?: ReadFileOptions & { encoding?: undefined }): Promise<Bytes | null>
  readFileOrNull(
    path: string,
    options: 'utf8' | (ReadFileOptions & { encoding: 'utf8' }),
  ): Promise<string | null>
  async readFileOrNull(path: string, options?: 'utf8' | ReadFileOptions): Promise<Bytes | string | null> {
    try {
      return await this.readFile(path, options as ReadFileOptions & { encoding: 'utf8' })
    } catch (error) {
      if (SandboxError.is(error, 'file_not_found')) return null
      throw error
    }
  }

  async readLines(path: string, options: ReadLinesOptions = {}): Promise<FileLines> {
    checkKnown(options, ['startLine', 'endLine', 'maxLineBytes', 'maxBytes', 'signal'], 'readLines()')
    const { signal } = options
    const range = checkRange(options)
    throwIfAborted(signal)
    const chunks = await this.#driver.readStream(checkPath(path), { start: 0 }, { signal })
    return linesOf(path, chunks, range, signal)
  }

  async readStream(path: string, options: ReadStreamOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const { start = 0, end, signal } = options
    for (const [name, value] of Object.entries({ start, end: end ?? start })) {
      if (!Number.isSafeInteger(value) || value < 0)
        throw invalid(`\`${name}\` is ${value}.`, 'Use a byte position of 0 or more.')
    }
    if (end !== undefined && end < start) throw invalid(`\`end\` (${end}) is before \`start\` (${start}).`)
    throwIfAborted(signal)
    return streamOf(await this.#driver.readStream(checkPath(path), { start, end }, { signal }))
  }

  async writeFile(path: string, data: BytesSource, options: WriteFileOptions = {}): Promise<void> {
    await this.#write(path, data, options, false)
  }

  async appendFile(path: string, data: BytesSource, options: WriteFileOptions = {}): Promise<void> {
    await this.#write(path, data, options, true)
  }

  async readdir(path: string, options: CallOptions = {}): Promise<string[]> {
    return (await this.list(path, options)).map((entry) => entry.name)
  }

  async list(path = '.', options: ListOptions = {}): Promise<FileEntry[]> {
    throwIfAborted(options.signal)
    const entries = await this.#driver.list(
      checkPath(path),
      { recursive: options.recursive ?? false },
      { signal: options.signal },
    )
    return entries.sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0))
  }

  async stat(path: string, options: CallOptions = {}): Promise<FileStat> {
    throwIfAborted(options.signal)
    return this.#driver.stat(checkPath(path), { follow: true }, options)
  }

  async lstat(path: string, options: CallOptions = {}): Promise<FileStat> {
    throwIfAborted(options.signal)
    return this.#driver.stat(checkPath(path), { follow: false }, options)
  }

  async exists(path: string, options: CallOptions = {}): Promise<boolean> {
    try {
      await this.stat(path, options)
      return true
    } catch (error) {
      if (SandboxError.is(error, 'file_not_found', 'not_a_directory')) return false
      throw error
    }
  }

  async mkdir(path: string, options: MkdirOptions = {}): Promise<void> {
    throwIfAborted(options.signal)
    const mode = options.mode === undefined ? undefined : checkMode(options.mode)
    await this.#driver.mkdir(
      checkPath(path),
      { recursive: options.recursive ?? false, mode },
      { signal: options.signal },
    )
  }

  async rename(from: string, to: string, options: CallOptions = {}): Promise<void> {
    throwIfAborted(options.signal)
    await this.#driver.rename(checkPath(from, 'from'), checkPath(to, 'to'), options)
  }

  async rm(path: string, options: RmOptions = {}): Promise<void> {
    throwIfAborted(options.signal)
    await this.#driver.rm(
      checkPath(path),
      { recursive: options.recursive ?? false, force: options.force ?? false },
      { signal: options.signal },
    )
  }

  async chmod(path: string, mode: number, options: CallOptions = {}): Promise<void> {
    throwIfAborted(options.signal)
    await this.#driver.chmod(checkPath(path), checkMode(mode), options)
  }

  async symlink(target: string, path: string, options: CallOptions = {}): Promise<void> {
    throwIfAborted(options.signal)
    await this.#driver.symlink(checkPath(target, 'target'), checkPath(path), options)
  }

  async readlink(path: string, options: CallOptions = {}): Promise<string> {
    throwIfAborted(options.signal)
    return this.#driver.readlink(checkPath(path), options)
  }

  async watch(path: string, options: WatchOptions = {}): Promise<AsyncIterable<FileChange>> {
    if (!this.#owner.capabilities.watch || !this.#driver.watch) throw unsupported(this.#owner, 'watch')
    throwIfAborted(options.signal)
    return this.#driver.watch(
      checkPath(path),
      { recursive: options.recursive ?? false },
      { signal: options.signal },
    )
  }

  async #write(
    path: string,
    data: BytesSource,
    { mode, signal }: WriteFileOptions,
    append: boolean,
  ): Promise<void> {
    checkSource(data, 'data')
    throwIfAborted(signal, 'Writing the file')
    const checked = mode === undefined ? undefined : checkMode(mode)
    await this.#driver.write(
      checkPath(path),
      cancellable(chunksOf(data), signal),
      { mode: checked, append },
      { signal },
    )
  }
}

/** Yields the chunks. Throws `aborted` as soon as the signal fires, also if the source has stalled. */
async function* cancellable(
  chunks: AsyncGenerator<Uint8Array>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  let finished = false
  try {
    for (;;) {
      const item = await abortable(chunks.next(), signal, 'Writing the file')
      if (item.done) {
        finished = true
        return
      }
      yield item.value
    }
  } finally {
    // Not awaited: a stalled source never answers.
    if (!finished) chunks.return(undefined).catch(() => {})
  }
}
