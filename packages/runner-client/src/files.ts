/** Files inside the sandbox. Names are bytes; strings are encoded as UTF-8. */
import { SandboxError } from '@sandkasten/sdk'
import { type CallOptions, call, checked, ended, opened } from './calls.ts'
import { type CborMap, decodeMap } from './cbor.ts'
import type { RunnerConnection } from './connection.ts'
import { ProtocolError } from './errors.ts'
import { type Bytes, bool, bytes, int, maybeBytes, maybeInt, shown, text, toBytes } from './schema.ts'
import type { RunnerStream, Taker } from './stream.ts'

export interface FileOptions extends CallOptions {
  /** The base of relative paths. Default: the runner's working directory. */
  cwd?: Bytes
  /** The user whose permissions apply. Default: the sandbox's user. */
  user?: string
}

export interface FileFacts {
  kind: 'file' | 'directory' | 'symlink' | 'fifo' | 'socket' | 'device'
  size: number
  mode: number
  uid: number
  gid: number
  mtimeMs: number
  inode?: number
  links: number
  target?: Uint8Array
}

export interface DirectoryEntry extends FileFacts {
  /** The path below the listed folder: as text for display, and as bytes. */
  path: string
  pathBytes: Uint8Array
}

export interface WatchEvent {
  /** `overflow`: changes came faster than they were read; list the folder again. */
  event: 'created' | 'modified' | 'written' | 'attributes' | 'deleted' | 'movedFrom' | 'movedTo' | 'overflow'
  path: string
  pathBytes: Uint8Array
  directory: boolean
  /** The same in both events of a rename. */
  cookie?: number
}

/** A file's bytes, readable once: as chunks, into the caller's memory, or without copying, which is fastest for large files. */
export interface FileContent extends AsyncIterable<Buffer> {
  /** The number of bytes; 0 at the end. */
  readInto(view: Uint8Array): Promise<number>
  /** Resolves after the last chunk was handed on; the consumer may still hold it. */
  lend(take: Taker): Promise<void>
  cancel(): void
}

export type Content = Bytes | AsyncIterable<Uint8Array> | Iterable<Uint8Array>

export interface WriteOptions extends FileOptions {
  mode?: number
  append?: boolean
  /** Fails if the file exists. */
  exclusive?: boolean
  /** Creates missing parent folders. */
  parents?: boolean
}

/** The longest record of `list` or `watch`: an entry with two names of the kernel's maximum length. */
const maxRecord = 64 * 1024

export class RunnerFiles {
  readonly #connection: RunnerConnection

  constructor(connection: RunnerConnection) {
    this.#connection = connection
  }

  /** The file's metadata and its bytes as a stream. Leaving the loop early stops the runner's read. */
  async readStream(
    path: Bytes,
    options: FileOptions & { offset?: number; length?: number } = {},
  ): Promise<{ facts: FileFacts; content: FileContent }> {
    const { offset, length } = options
    const stream = this.#request('fs.read', { path: toBytes(path), offset, length }, options, { wide: true })
    const facts = await opened(this.#connection, stream, factsOf, options)
    const content = {
      [Symbol.asyncIterator]: () => this.#content(stream),
      readInto: (view: Uint8Array) => stream.readInto(view),
      lend: (take: Taker) => stream.lend(take),
      cancel: () => stream.cancel(),
    }
    return { facts, content }
  }

  /** Reads the whole file into memory. Refuses files larger than `maxBytes` (default 64 MiB). */
  async read(
    path: Bytes,
    options: FileOptions & { offset?: number; length?: number; maxBytes?: number } = {},
  ): Promise<Buffer> {
    const { content } = await this.readStream(path, options)
    return gather(content, options.maxBytes ?? 64 * 1024 * 1024)
  }

  /** Writes atomically, except with `append`. Resolves with the number of bytes. */
  async write(path: Bytes, content: Content, options: WriteOptions = {}): Promise<number> {
    const { mode, append, exclusive, parents } = options
    const stream = this.#request(
      'fs.write',
      { path: toBytes(path), mode, append, exclusive, parents },
      options,
    )
    return this.#send(stream, content, (body) => int(body, 'bytes'), options)
  }

  async *list(
    path: Bytes,
    options: FileOptions & { depth?: number } = {},
  ): AsyncGenerator<DirectoryEntry, void, void> {
    const stream = this.#request('fs.list', { path: toBytes(path), depth: options.depth }, options)
    yield* this.#records(stream, entryOf)
  }

  stat(path: Bytes, options: FileOptions & { noFollow?: boolean } = {}): Promise<FileFacts> {
    return this.#call('fs.stat', { path: toBytes(path), noFollow: options.noFollow }, factsOf, options)
  }

  /** True if the folder is new. */
  mkdir(path: Bytes, options: FileOptions & { parents?: boolean; mode?: number } = {}): Promise<boolean> {
    const { parents, mode } = options
    return this.#call(
      'fs.mkdir',
      { path: toBytes(path), parents, mode },
      (body) => bool(body, 'created'),
      options,
    )
  }

  rename(from: Bytes, to: Bytes, options: FileOptions & { exclusive?: boolean } = {}): Promise<void> {
    const body = { from: toBytes(from), to: toBytes(to), exclusive: options.exclusive }
    return this.#call('fs.rename', body, () => undefined, options)
  }

  /** Resolves with the number of removed names; 0 only with `force`. */
  remove(path: Bytes, options: FileOptions & { recursive?: boolean; force?: boolean } = {}): Promise<number> {
    const { recursive, force } = options
    return this.#call(
      'fs.remove',
      { path: toBytes(path), recursive, force },
      (body) => int(body, 'removed'),
      options,
    )
  }

  chmod(path: Bytes, mode: number, options: FileOptions = {}): Promise<void> {
    return this.#call('fs.chmod', { path: toBytes(path), mode }, () => undefined, options)
  }

  /** Resolves when the watch is active. Ends when the path itself is removed or the loop is left. */
  async watch(
    path: Bytes,
    options: FileOptions & { recursive?: boolean } = {},
  ): Promise<AsyncGenerator<WatchEvent, void, void>> {
    const stream = this.#request('fs.watch', { path: toBytes(path), recursive: options.recursive }, options)
    await opened(this.#connection, stream, (body) => int(body, 'watches'), options)
    const abort = (): void => stream.cancel()
    options.signal?.addEventListener('abort', abort, { once: true })
    return this.#records(stream, watchEventOf)
  }

  /** A file or a tree as a tar archive. */
  async tar(path: Bytes, options: FileOptions = {}): Promise<AsyncIterable<Buffer>> {
    const stream = this.#request('fs.tar', { path: toBytes(path) }, options, { wide: true })
    await opened(this.#connection, stream, () => undefined, options)
    return this.#content(stream)
  }

  /** Unpacks a tar archive into a folder. */
  untar(
    path: Bytes,
    archive: Content,
    options: FileOptions & { parents?: boolean } = {},
  ): Promise<{ entries: number; skipped: number }> {
    const stream = this.#request('fs.untar', { path: toBytes(path), parents: options.parents }, options)
    return this.#send(
      stream,
      archive,
      (body) => ({ entries: int(body, 'entries'), skipped: int(body, 'skipped') }),
      options,
    )
  }

  #body(body: CborMap, options: FileOptions): CborMap {
    return { ...body, user: options.user, cwd: options.cwd === undefined ? undefined : toBytes(options.cwd) }
  }

  #call<T>(op: string, body: CborMap, check: (body: CborMap) => T, options: FileOptions): Promise<T> {
    return call(this.#connection, op, this.#body(body, options), check, options)
  }

  #request(op: string, body: CborMap, options: FileOptions, stream: { wide?: boolean } = {}): RunnerStream {
    return this.#connection.request(op, this.#body(body, options), { content: true, ...stream })
  }

  async #send<T>(
    stream: RunnerStream,
    content: Content,
    check: (body: CborMap) => T,
    options: FileOptions,
  ): Promise<T> {
    // The response may arrive before the content has ended, for example on a full disk.
    const answer = ended(this.#connection, stream, check, options.signal)
    answer.catch(() => {})
    try {
      for await (const chunk of chunks(content)) {
        if (stream.finished) break
        await stream.write(chunk)
      }
      await stream.end()
    } catch (error) {
      // If both failed, the runner's response is the reason, not the write that it stopped.
      if (stream.finished) await answer
      // Without END the runner treats the content as incomplete and keeps the old file. After its response, no partial file is left.
      stream.cancel()
      await Promise.race([
        answer.catch(() => {}),
        new Promise((resolve) => setTimeout(resolve, 5000).unref()),
      ])
      throw error
    }
    return answer
  }

  async *#content(stream: RunnerStream): AsyncGenerator<Buffer, void, void> {
    try {
      for (;;) {
        const item = await stream.next()
        if (item === undefined) return
        if (item.type !== 'data')
          throw this.#connection.violated(new ProtocolError('out_of_order', 'not file content'))
        yield item.data
      }
    } finally {
      stream.cancel()
    }
  }

  async *#records<T>(stream: RunnerStream, check: (body: CborMap) => T): AsyncGenerator<T, void, void> {
    let pending: Buffer = Buffer.alloc(0)
    for await (const data of this.#content(stream)) {
      pending = pending.length === 0 ? data : Buffer.concat([pending, data])
      while (pending.length >= 4) {
        const length = pending.readUInt32BE()
        if (length > maxRecord)
          throw this.#connection.violated(new ProtocolError('too_long', 'a record that is too long'))
        if (pending.length < 4 + length) break
        const body = pending.subarray(4, 4 + length)
        pending = pending.subarray(4 + length)
        yield checked(this.#connection, () => check(decodeMap(body)), {})
      }
    }
    if (pending.length > 0)
      throw this.#connection.violated(new ProtocolError('torn', 'a record that ends early'))
  }
}

export async function gather(content: AsyncIterable<Buffer>, maxBytes: number): Promise<Buffer> {
  const parts: Buffer[] = []
  let length = 0
  for await (const part of content) {
    length += part.length
    if (length > maxBytes) throw new SandboxError('too_large', `more than ${maxBytes} bytes`)
    parts.push(part)
  }
  return Buffer.concat(parts, length)
}

async function* chunks(content: Content): AsyncGenerator<Uint8Array, void, void> {
  if (typeof content === 'string' || content instanceof Uint8Array) yield toBytes(content)
  else yield* content
}

const kinds = new Set(['file', 'directory', 'symlink', 'fifo', 'socket', 'device'])
const watchEvents = new Set([
  'created',
  'modified',
  'written',
  'attributes',
  'deleted',
  'movedFrom',
  'movedTo',
  'overflow',
])

function factsOf(body: CborMap): FileFacts {
  const kind = text(body, 'kind')
  if (!kinds.has(kind)) throw new ProtocolError('malformed', 'a file of an unknown kind')
  return {
    kind: kind as FileFacts['kind'],
    size: int(body, 'size'),
    mode: int(body, 'mode'),
    uid: int(body, 'uid'),
    gid: int(body, 'gid'),
    mtimeMs: int(body, 'mtimeMs'),
    inode: maybeInt(body, 'inode'),
    links: int(body, 'links'),
    target: maybeBytes(body, 'target'),
  }
}

function entryOf(body: CborMap): DirectoryEntry {
  const pathBytes = bytes(body, 'path')
  return { ...factsOf(body), path: shown(pathBytes), pathBytes }
}

function watchEventOf(body: CborMap): WatchEvent {
  const event = text(body, 'event')
  if (!watchEvents.has(event)) throw new ProtocolError('malformed', 'a watch event of an unknown kind')
  const pathBytes = bytes(body, 'path')
  return {
    event: event as WatchEvent['event'],
    path: shown(pathBytes),
    pathBytes,
    directory: bool(body, 'directory'),
    cookie: maybeInt(body, 'cookie'),
  }
}
