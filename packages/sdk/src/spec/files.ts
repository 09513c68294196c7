import type { AllCapabilities, Capabilities, Parts } from './capabilities.ts'
import type { Bytes, BytesSource, CallOptions } from './common.ts'

/**
 * Files inside the sandbox, in the shape of `node:fs/promises`. Relative paths start at the sandbox's `workdir`.
 * Everything is binary unless an encoding is given.
 */
export interface SandboxFilesCore {
  readFile(path: string, options?: ReadFileOptions & { encoding?: undefined }): Promise<Bytes>
  readFile(path: string, options: 'utf8' | (ReadFileOptions & { encoding: 'utf8' })): Promise<string>
  /** In chunks, with backpressure; `start` and `end` (exclusive) choose a part. Rejects at once when there is no such file. */
  readStream(path: string, options?: ReadStreamOptions): Promise<ReadableStream<Uint8Array>>
  /** Makes parent folders. Appears whole or not at all: a failed or cancelled write leaves the old content. */
  writeFile(path: string, data: BytesSource, options?: WriteFileOptions): Promise<void>
  appendFile(path: string, data: BytesSource, options?: WriteFileOptions): Promise<void>
  /** Names, sorted. */
  readdir(path: string, options?: CallOptions): Promise<string[]>
  /** Entries with their facts, sorted by path. Symbolic links are listed, never followed. */
  list(path?: string, options?: ListOptions): Promise<FileEntry[]>
  stat(path: string, options?: CallOptions): Promise<FileStat>
  /** Like stat, but of a symbolic link itself. */
  lstat(path: string, options?: CallOptions): Promise<FileStat>
  exists(path: string, options?: CallOptions): Promise<boolean>
  mkdir(path: string, options?: MkdirOptions): Promise<void>
  /** Replaces a file that is there. */
  rename(from: string, to: string, options?: CallOptions): Promise<void>
  rm(path: string, options?: RmOptions): Promise<void>
  chmod(path: string, mode: number, options?: CallOptions): Promise<void>
  symlink(target: string, path: string, options?: CallOptions): Promise<void>
  readlink(path: string, options?: CallOptions): Promise<string>
}

export interface SandboxFilesWatch {
  /** Resolves once changes are being recorded, so that none after it is missed. Ends with the signal or `break`. */
  watch(path: string, options?: WatchOptions): Promise<AsyncIterable<FileChange>>
}

export type SandboxFiles<C extends Capabilities = AllCapabilities> = SandboxFilesCore & Parts<C, 'files'>

export interface ReadFileOptions extends CallOptions {
  encoding?: 'utf8'
  /** Reject with `too_large` rather than load more than this. Default 256 MiB. */
  maxBytes?: number
}

export interface ReadStreamOptions extends CallOptions {
  start?: number
  end?: number
}

export interface WriteFileOptions extends CallOptions {
  /** For a new file; one that is there keeps its mode unless this is given. Default 0o644. */
  mode?: number
}

export interface ListOptions extends CallOptions {
  recursive?: boolean
}

export interface MkdirOptions extends CallOptions {
  recursive?: boolean
  mode?: number
}

export interface RmOptions extends CallOptions {
  recursive?: boolean
  /** Succeed when there is nothing to remove. */
  force?: boolean
}

export interface WatchOptions extends CallOptions {
  recursive?: boolean
}

export type FileType = 'file' | 'directory' | 'symlink' | 'other'

export interface FileStat {
  readonly type: FileType
  readonly size: number
  /** Permission bits only; undefined where the provider does not tell. */
  readonly mode?: number
  readonly mtimeMs?: number
  /** Owner and group as the sandbox numbers them; undefined where the provider does not tell. */
  readonly uid?: number
  readonly gid?: number
}

export interface FileEntry extends FileStat {
  readonly name: string
  /** Relative to the folder that was listed, with `/`. */
  readonly path: string
}

export interface FileChange {
  readonly type: 'created' | 'changed' | 'removed'
  /** Relative to the folder that is watched, with `/`; for a watched file, its name. */
  readonly path: string
}
