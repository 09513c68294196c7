import type { Capabilities, Part } from './capabilities.ts'
import type { Bytes, BytesSource, CallOptions } from './common.ts'

/**
 * Files inside the sandbox, in the style of `node:fs/promises`. Relative paths start at the sandbox's `workdir`.
 * Content is binary unless an encoding is given.
 */
export interface SandboxFilesCore {
  readFile(path: string, options?: ReadFileOptions & { encoding?: undefined }): Promise<Bytes>
  readFile(path: string, options: 'utf8' | (ReadFileOptions & { encoding: 'utf8' })): Promise<string>
  /** Like `readFile`, but resolves to null if the file does not exist. All other errors reject. */
  readFileOrNull(path: string, options?: ReadFileOptions & { encoding?: undefined }): Promise<Bytes | null>
  readFileOrNull(
    path: string,
    options: 'utf8' | (ReadFileOptions & { encoding: 'utf8' }),
  ): Promise<string | null>
  /**
   * Reads lines of a text file. The file is read as a stream up to the last requested line, so a range of a large file
   * needs little memory. A range after the end of the file has no lines, and is not an error.
   */
  readLines(path: string, options?: ReadLinesOptions): Promise<FileLines>
  /**
   * Reads in chunks, with backpressure. `start` and `end` (exclusive) select a range. Rejects immediately if the file
   * does not exist.
   */
  readStream(path: string, options?: ReadStreamOptions): Promise<ReadableStream<Uint8Array>>
  /** Creates parent folders. The write is atomic: a failed or cancelled write leaves the old content. */
  writeFile(path: string, data: BytesSource, options?: WriteFileOptions): Promise<void>
  appendFile(path: string, data: BytesSource, options?: WriteFileOptions): Promise<void>
  /** Returns sorted names. */
  readdir(path: string, options?: CallOptions): Promise<string[]>
  /** Returns entries with their metadata, sorted by path. Symbolic links are listed, never followed. */
  list(path?: string, options?: ListOptions): Promise<FileEntry[]>
  stat(path: string, options?: CallOptions): Promise<FileStat>
  /** Like `stat`, but does not follow a symbolic link. */
  lstat(path: string, options?: CallOptions): Promise<FileStat>
  exists(path: string, options?: CallOptions): Promise<boolean>
  mkdir(path: string, options?: MkdirOptions): Promise<void>
  /** Replaces an existing file. */
  rename(from: string, to: string, options?: CallOptions): Promise<void>
  rm(path: string, options?: RmOptions): Promise<void>
  chmod(path: string, mode: number, options?: CallOptions): Promise<void>
  symlink(target: string, path: string, options?: CallOptions): Promise<void>
  readlink(path: string, options?: CallOptions): Promise<string>
}

export interface SandboxFilesWatch {
  /** Resolves once changes are being recorded; later changes are not missed. Ends on the signal or on `break`. */
  watch(path: string, options?: WatchOptions): Promise<AsyncIterable<FileChange>>
}

export type SandboxFiles<C extends Capabilities = Capabilities> = SandboxFilesCore & Part<C, 'watch', 'files'>

export interface ReadFileOptions extends CallOptions {
  encoding?: 'utf8'
  /** Larger files reject with `too_large`. Default 256 MiB. */
  maxBytes?: number
}

export interface ReadLinesOptions extends CallOptions {
  /** The first line, counted from 1. Default 1. */
  startLine?: number
  /** The last line, inclusive. Default: the last line of the file. */
  endLine?: number
  /** The rest of a longer line is left out. Default 64 KiB. */
  maxLineBytes?: number
  /** Larger results, and results of more than a million lines, reject with `too_large`. Default 16 MiB. */
  maxBytes?: number
}

export interface FileLines {
  /** UTF-8 text without line endings (`\n` or `\r\n`). A final newline does not begin another line. */
  readonly lines: string[]
  /** The number of the first line in `lines`. */
  readonly startLine: number
  /** Numbers of the lines that are longer than `maxLineBytes`, of which only the beginning is included. */
  readonly cutLines: number[]
  /** Whether the file has more lines after these. */
  readonly more: boolean
  /** The number of lines in the file, if it was read to its end. */
  readonly totalLines?: number
}

export interface ReadStreamOptions extends CallOptions {
  start?: number
  end?: number
}

export interface WriteFileOptions extends CallOptions {
  /** The mode of a new file, default 0o644. An existing file keeps its mode unless this is given. */
  mode?: number
}

export interface UploadFileOptions extends CallOptions {
  /**
   * The sandbox only reads and runs the file. A provider on this machine can then make `remotePath` a link to a
   * read-only copy that sandboxes share, instead of copying the file. Stops and starts keep such a file; snapshots and
   * forks do not contain it. Default false.
   */
  readOnly?: boolean
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
  /** Succeed if the path does not exist. */
  force?: boolean
}

export interface WatchOptions extends CallOptions {
  recursive?: boolean
}

export type FileType = 'file' | 'directory' | 'symlink' | 'other'

export interface FileStat {
  readonly type: FileType
  readonly size: number
  /** Permission bits only; undefined if the provider does not report them. */
  readonly mode?: number
  readonly mtimeMs?: number
  /** Owner and group as numbered in the sandbox; undefined if the provider does not report them. */
  readonly uid?: number
  readonly gid?: number
}

export interface FileEntry extends FileStat {
  readonly name: string
  /** Relative to the listed folder, with `/`. */
  readonly path: string
}

export interface FileChange {
  readonly type: 'created' | 'changed' | 'removed'
  /** Relative to the watched folder, with `/`. For a watched file: its name. */
  readonly path: string
}
