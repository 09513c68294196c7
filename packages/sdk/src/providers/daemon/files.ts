import type { Session, SessionFiles } from '../../client/index.ts'
import type { FilesDriver } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import type { CallOptions, FileChange, FileEntry, FileStat } from '../../spec/index.ts'
import { translating } from './translation.ts'

export class DaemonFiles implements FilesDriver {
  readonly #id: string
  readonly #files: SessionFiles

  constructor(session: Session) {
    this.#id = session.id
    this.#files = session.files
  }

  readStream(
    path: string,
    range: { start: number; end?: number },
    call: CallOptions,
  ): Promise<AsyncIterable<Uint8Array>> {
    return this.#do(this.#files.readChunks(path, range, call))
  }

  write(
    path: string,
    chunks: AsyncIterable<Uint8Array>,
    options: { mode?: number; append: boolean },
    call: CallOptions,
  ): Promise<void> {
    return this.#do(this.#files.write(path, chunks, { ...options, ...call }))
  }

  list(path: string, options: { recursive: boolean }, call: CallOptions): Promise<FileEntry[]> {
    return this.#do(this.#files.list(path, { ...options, ...call }))
  }

  async stat(path: string, options: { follow: boolean }, call: CallOptions): Promise<FileStat> {
    const { target: _, ...stat } = await this.#do(this.#files.stat(path, { ...options, ...call }))
    return stat
  }

  mkdir(path: string, options: { recursive: boolean; mode?: number }, call: CallOptions): Promise<void> {
    return this.#do(this.#files.mkdir(path, { ...options, ...call }))
  }

  rename(from: string, to: string, call: CallOptions): Promise<void> {
    return this.#do(this.#files.move(from, to, call))
  }

  rm(path: string, options: { recursive: boolean; force: boolean }, call: CallOptions): Promise<void> {
    return this.#do(this.#files.remove(path, { ...options, ...call }))
  }

  chmod(path: string, mode: number, call: CallOptions): Promise<void> {
    return this.#do(this.#files.chmod(path, mode, call))
  }

  symlink(target: string, path: string, call: CallOptions): Promise<void> {
    return this.#do(this.#files.symlink(target, path, call))
  }

  async readlink(path: string, call: CallOptions): Promise<string> {
    const { target } = await this.#do(this.#files.stat(path, { follow: false, ...call }))
    if (target !== undefined) return target
    throw new SandboxError('invalid_argument', `${path} is not a symbolic link.`)
  }

  watch(
    path: string,
    options: { recursive: boolean },
    call: CallOptions,
  ): Promise<AsyncIterable<FileChange>> {
    return this.#do(this.#files.watch(path, { ...options, ...call }))
  }

  #do<T>(work: Promise<T>): Promise<T> {
    return translating(this.#id, work)
  }
}
