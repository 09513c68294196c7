import type { FilesDriver } from '../../core/driver.ts'
import { throwIfAborted } from '../../shared/calls/abort.ts'
import type { CallOptions, FileChange, FileEntry, FileStat } from '../../spec/index.ts'
import type { FaultHit } from './faults.ts'
import {
  directory,
  emptyContent,
  fsError,
  mayChange,
  mayRead,
  type Place,
  type Vfs,
  type VfsDirectory,
  type VfsNode,
} from './machine/virtual-files.ts'
import { watch } from './machine/watch.ts'

export interface FilesHost {
  readonly vfs: Vfs
  /** Called before every operation. It may wait or throw, and returns where a stream breaks off. */
  enter(operation: FileOperation, call: CallOptions): Promise<FaultHit>
}

export type FileOperation =
  | 'readStream'
  | 'writeFile'
  | 'appendFile'
  | 'listFiles'
  | 'stat'
  | 'mkdir'
  | 'rename'
  | 'rm'
  | 'chmod'
  | 'symlink'
  | 'readlink'
  | 'watch'

/** Files over a virtual file system. Every change is one synchronous step, so no partial change is visible. */
export class MemoryFiles implements FilesDriver {
  readonly #host: FilesHost

  constructor(host: FilesHost) {
    this.#host = host
  }

  async readStream(
    path: string,
    range: { start: number; end?: number },
    call: CallOptions,
  ): Promise<AsyncIterable<Uint8Array>> {
    const fault = await this.#host.enter('readStream', call)
    const node = this.#vfs.node(path, { follow: true })
    if (node.type !== 'file') throw fsError('is_a_directory', path)
    mayRead(node, path)
    return fault.through(read(node.content.chunks, range.start, range.end ?? node.content.size, call.signal))
  }

  async write(
    path: string,
    chunks: AsyncIterable<Uint8Array>,
    options: { mode?: number; append: boolean },
    call: CallOptions,
  ): Promise<void> {
    const fault = await this.#host.enter(options.append ? 'appendFile' : 'writeFile', call)
    this.#writable(path)
    const copied: Uint8Array[] = []
    for await (const chunk of fault.through(chunks)) copied.push(chunk.slice())
    makeParents(this.#vfs, path)
    const place = this.#writable(path)
    const old = place.node?.type === 'file' ? place.node : undefined
    const before = options.append && old ? old.content : emptyContent
    const all = [...before.chunks, ...copied]
    const content = { chunks: all, size: all.reduce((sum, chunk) => sum + chunk.byteLength, 0) }
    const mode = options.mode ?? old?.mode ?? 0o644
    this.#vfs.put(place, { type: 'file', content, mode, mtimeMs: this.#vfs.now() })
  }

  async list(path: string, options: { recursive: boolean }, call: CallOptions): Promise<FileEntry[]> {
    await this.#host.enter('listFiles', call)
    const node = this.#vfs.node(path, { follow: true })
    if (node.type !== 'directory') throw fsError('not_a_directory', path)
    mayRead(node, path)
    return [...entries(node, '', options.recursive)]
  }

  async stat(path: string, options: { follow: boolean }, call: CallOptions): Promise<FileStat> {
    await this.#host.enter('stat', call)
    return facts(this.#vfs.node(path, options))
  }

  async mkdir(
    path: string,
    options: { recursive: boolean; mode?: number },
    call: CallOptions,
  ): Promise<void> {
    await this.#host.enter('mkdir', call)
    if (options.recursive) makeParents(this.#vfs, path)
    const place = this.#vfs.place(path, { follow: true })
    if (place.node) {
      if (options.recursive && place.node.type === 'directory') return
      throw fsError('file_exists', path)
    }
    this.#vfs.put(place, directory(this.#vfs.now(), options.mode ?? 0o755))
  }

  async rename(from: string, to: string, call: CallOptions): Promise<void> {
    await this.#host.enter('rename', call)
    const source = this.#vfs.place(from, { follow: false })
    if (!source.node) throw fsError('file_not_found', from)
    const target = this.#vfs.place(to, { follow: false })
    if (target.node === source.node) return
    if (`${target.path}/`.startsWith(`${source.path}/`))
      throw fsError('invalid_argument', to, 'A directory cannot be moved into itself.')
    checkReplace(source.node, target, to)
    this.#vfs.remove(source)
    this.#vfs.put(target, source.node)
  }

  async rm(path: string, options: { recursive: boolean; force: boolean }, call: CallOptions): Promise<void> {
    await this.#host.enter('rm', call)
    let place: Place
    try {
      place = this.#vfs.place(path, { follow: false })
      if (!place.node) throw fsError('file_not_found', path)
    } catch (error) {
      if (options.force && (error as { code?: unknown }).code === 'file_not_found') return
      throw error
    }
    if (place.node?.type === 'directory' && !options.recursive) throw fsError('is_a_directory', path)
    this.#vfs.remove(place)
  }

  async chmod(path: string, mode: number, call: CallOptions): Promise<void> {
    await this.#host.enter('chmod', call)
    const { node, path: real } = this.#vfs.place(path, { follow: true })
    if (!node || node.type === 'symlink') throw fsError('file_not_found', path)
    node.mode = mode
    this.#vfs.tell('changed', real)
  }

  async symlink(target: string, path: string, call: CallOptions): Promise<void> {
    await this.#host.enter('symlink', call)
    const place = this.#vfs.place(path, { follow: false })
    if (place.node) throw fsError('file_exists', path)
    this.#vfs.put(place, { type: 'symlink', target, mode: 0o777, mtimeMs: this.#vfs.now() })
  }

  async readlink(path: string, call: CallOptions): Promise<string> {
    await this.#host.enter('readlink', call)
    const node = this.#vfs.node(path, { follow: false })
    if (node.type !== 'symlink') throw fsError('invalid_argument', path, 'The path is not a symbolic link.')
    return node.target
  }

  async watch(
    path: string,
    options: { recursive: boolean },
    call: CallOptions,
  ): Promise<AsyncIterable<FileChange>> {
    await this.#host.enter('watch', call)
    return watch(this.#vfs, path, options.recursive, call.signal)
  }

  get #vfs(): Vfs {
    return this.#host.vfs
  }

  /** Resolves a file to write. The file and its parents may be missing. */
  #writable(path: string): Place {
    const place = placeOrMissing(this.#vfs, path)
    if (place.node?.type === 'directory') throw fsError('is_a_directory', path)
    if (place.node) mayChange(place.node, path)
    return place
  }
}

function placeOrMissing(vfs: Vfs, path: string): Place {
  try {
    return vfs.place(path, { follow: true })
  } catch (error) {
    if ((error as { code?: unknown }).code === 'file_not_found') return { path, name: '' }
    throw error
  }
}

/** Creates the parent folders, like `mkdir -p`. */
function makeParents(vfs: Vfs, path: string): void {
  const parts = path.split('/')
  for (let count = 1; count < parts.length; count += 1) {
    const parent = parts.slice(0, count).join('/')
    if (parent === '') continue
    const place = vfs.place(parent, { follow: true })
    if (!place.node) vfs.put(place, directory(vfs.now(), 0o755))
    else if (place.node.type !== 'directory') throw fsError('not_a_directory', path)
  }
}

function checkReplace(source: VfsNode, target: Place, to: string): void {
  if (!target.node) return
  if (source.type === 'directory') {
    if (target.node.type !== 'directory') throw fsError('not_a_directory', to)
    if (target.node.entries.size > 0) throw fsError('directory_not_empty', to)
  } else if (target.node.type === 'directory') throw fsError('is_a_directory', to)
}

function* entries(dir: VfsDirectory, prefix: string, recursive: boolean): Generator<FileEntry> {
  for (const [name, node] of dir.entries) {
    const path = prefix + name
    yield { name, path, ...facts(node) }
    if (recursive && node.type === 'directory') yield* entries(node, `${path}/`, true)
  }
}

function facts(node: VfsNode): FileStat {
  const size =
    node.type === 'file'
      ? node.content.size
      : node.type === 'symlink'
        ? new TextEncoder().encode(node.target).byteLength
        : 0
  return { type: node.type, size, mode: node.mode & 0o7777, mtimeMs: node.mtimeMs }
}

async function* read(
  chunks: readonly Uint8Array[],
  start: number,
  end: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  let at = 0
  for (const chunk of chunks) {
    const part = chunk.subarray(Math.max(0, start - at), Math.max(0, end - at))
    at += chunk.byteLength
    if (part.byteLength === 0) continue
    throwIfAborted(signal, 'Reading the file')
    yield part.slice()
  }
}
