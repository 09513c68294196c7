import type { FilesDriver } from '../../core/driver.ts'
import { SandboxError, type SandboxErrorCode } from '../../errors.ts'
import { throwIfAborted } from '../../shared/calls/abort.ts'
import { randomId } from '../../shared/ids.ts'
import type { CallOptions, FileEntry, FileStat } from '../../spec/index.ts'
import {
  isFile,
  isFolder,
  isLink,
  openFlags,
  type SftpCalls,
  sftpStatus,
  statusOf,
} from './connection/sftp.ts'
import { diskFull } from './errors.ts'
import { Paths } from './paths.ts'
import type { SftpStats } from './sdk.ts'

export interface FilesPlace {
  check(sftp: SftpCalls): Promise<void>
  withSftp<T>(work: (sftp: SftpCalls) => Promise<T>): Promise<T>
  remove(path: string, call: CallOptions): Promise<void>
  readonly workdir: string
  /** Files are written to this folder, beside the working directory, and then renamed into place. */
  readonly partial: string
}

/** Chunk size, and how many chunks are requested at once, so that latency does not limit the throughput. */
const PIECE = 64 * 1024
const AHEAD = 16

/** Files over SFTP. Every path is first confined to the working directory (`paths.ts`). */
export class SshFiles implements FilesDriver {
  readonly #place: FilesPlace

  constructor(place: FilesPlace) {
    this.#place = place
  }

  async readStream(given: string, range: { start: number; end?: number }, { signal }: CallOptions) {
    const { handle, size } = await this.#at(given, true, 'Reading', async (sftp, file) => {
      // Check the type first: opening a FIFO would block the channel.
      const facts = await sftp.stat(file)
      if (isFolder(facts)) throw fault('is_a_directory', given)
      if (!isFile(facts)) throw fault('invalid_argument', given, 'is not a regular file')
      return { handle: await sftp.open(file, openFlags.read, 0), size: facts.size }
    })
    return this.#pieces(handle, range.start, Math.min(range.end ?? size, size), given, signal)
  }

  async write(
    given: string,
    chunks: AsyncIterable<Uint8Array>,
    { mode, append }: { mode?: number; append: boolean },
    { signal }: CallOptions,
  ): Promise<void> {
    await this.#at(given, true, 'Writing', async (sftp, file) => {
      if (file === this.#place.workdir) throw fault('is_a_directory', given)
      await makeParents(sftp, file, given)
      const there = await sftp.lstat(file).catch(ifMissing)
      if (there && isFolder(there)) throw fault('is_a_directory', given)
      if (append) return appendTo(sftp, file, chunks, there, mode)
      await this.#replace(sftp, file, chunks, mode ?? (there ? there.mode & 0o7777 : 0o644), signal)
    })
  }

  async list(
    given: string,
    { recursive }: { recursive: boolean },
    { signal }: CallOptions,
  ): Promise<FileEntry[]> {
    return this.#at(given, true, 'Listing', async (sftp, folder) => {
      if (!isFolder(await sftp.stat(folder))) throw fault('not_a_directory', given)
      return walk(sftp, folder, '', recursive, signal)
    })
  }

  async stat(given: string, { follow }: { follow: boolean }): Promise<FileStat> {
    return this.#at(given, follow, 'Reading the attributes of', async (sftp, file) =>
      factsOf(await (follow ? sftp.stat(file) : sftp.lstat(file))),
    )
  }

  async mkdir(given: string, { recursive, mode }: { recursive: boolean; mode?: number }): Promise<void> {
    await this.#at(given, true, 'Creating the folder', async (sftp, folder) => {
      const there = await sftp.stat(folder).catch(ifMissing)
      if (there && recursive && isFolder(there)) return
      if (there) throw fault(recursive ? 'not_a_directory' : 'file_exists', given)
      if (recursive) await makeParents(sftp, folder, given)
      await sftp.mkdir(folder, mode).catch(async (error) => {
        if (!recursive || !(await sftp.stat(folder).then(isFolder, () => false))) throw error
      })
      // The host's umask has reduced the mode.
      if (mode !== undefined) await sftp.chmod(folder, mode)
    })
  }

  async rename(from: string, to: string): Promise<void> {
    await this.#at(from, false, `Renaming to ${to}:`, async (sftp, source) => {
      const target = await this.#paths(sftp).resolve(to, false)
      if (source === this.#place.workdir || target === this.#place.workdir) throw rootFault('renamed')
      const facts = await sftp.lstat(source)
      await sftp.replace(source, target).catch(async (error) => {
        const there = await sftp.lstat(target).catch(ifMissing)
        if (there && isFolder(there) && !isFolder(facts)) throw fault('is_a_directory', to)
        if (there && !isFolder(there) && isFolder(facts)) throw fault('not_a_directory', to)
        if (there && isFolder(there)) throw fault('directory_not_empty', to)
        throw error
      })
    })
  }

  async rm(
    given: string,
    { recursive, force }: { recursive: boolean; force: boolean },
    call: CallOptions,
  ): Promise<void> {
    await this.#at(given, false, 'Removing', async (sftp, file) => {
      if (file === this.#place.workdir) throw rootFault('removed')
      const facts = await sftp
        .lstat(file)
        .catch((error) => (force ? ifMissing(error) : Promise.reject(error)))
      if (!facts) return
      if (!isFolder(facts)) await sftp.unlink(file)
      else if (recursive) await this.#place.remove(file, call)
      else
        await sftp.rmdir(file).catch(async (error) => {
          if ((await sftp.readdir(file)).some(({ filename }) => !dots.has(filename)))
            throw fault('directory_not_empty', given)
          throw error
        })
    })
  }

  async chmod(given: string, mode: number): Promise<void> {
    await this.#at(given, true, 'Changing the mode of', (sftp, file) => sftp.chmod(file, mode))
  }

  /** A link may have any target; access through it is confined. */
  async symlink(target: string, given: string): Promise<void> {
    await this.#at(given, false, 'Linking', async (sftp, file) => {
      if (await sftp.lstat(file).catch(ifMissing)) throw fault('file_exists', given)
      await sftp.symlink(target, file)
    })
  }

  async readlink(given: string): Promise<string> {
    return this.#at(given, false, 'Reading the link', async (sftp, file) => {
      if (!isLink(await sftp.lstat(file))) throw fault('invalid_argument', given, 'is not a symbolic link')
      return sftp.readlink(file)
    })
  }

  /** Runs one operation on one path, and translates the host's errors. */
  #at<T>(
    given: string,
    follow: boolean,
    what: string,
    work: (sftp: SftpCalls, file: string) => Promise<T>,
  ): Promise<T> {
    return this.#place.withSftp(async (sftp) => {
      const paths = this.#paths(sftp)
      const [, file] = await Promise.all([this.#place.check(sftp), paths.resolve(given, follow)])
      try {
        return await work(sftp, file)
      } catch (error) {
        if (SandboxError.is(error) || statusOf(error) === undefined) throw error
        // SFTP has only three error codes; the details need another request.
        const reason = await paths.reason(file, statusOf(error)!)
        throw reason === 'disk_full' ? diskFull(`${what} ${given}`, error) : fault(reason, given, what, error)
      }
    })
  }

  #paths(sftp: SftpCalls): Paths {
    return new Paths(sftp, this.#place.workdir)
  }

  async *#pieces(
    handle: Buffer,
    start: number,
    end: number,
    given: string,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Uint8Array> {
    const pending: Array<Promise<Buffer>> = []
    let asked = start
    const ask = () => {
      while (pending.length < AHEAD && asked < end) {
        const length = Math.min(PIECE, end - asked)
        const at = asked
        const piece = this.#place.withSftp((sftp) => sftp.read(handle, length, at))
        piece.catch(() => {})
        pending.push(piece)
        asked += length
      }
    }
    try {
      for (let at = start; at < end; ) {
        ask()
        const wanted = Math.min(PIECE, end - at)
        let piece = await pending.shift()!
        throwIfAborted(signal, 'Reading the file')
        // The host may send less than requested: request the rest.
        while (piece.length < wanted) {
          const [have, from] = [piece, at + piece.length]
          const more = await this.#place.withSftp((sftp) => sftp.read(handle, wanted - have.length, from))
          if (more.length === 0) break
          piece = Buffer.concat([have, more])
        }
        if (piece.length > 0) yield piece
        // The file became shorter while it was read.
        if (piece.length < wanted) return
        at += piece.length
      }
    } catch (error) {
      throw statusOf(error) === undefined ? error : fault('provider_error', given, 'Reading', error)
    } finally {
      await Promise.allSettled(pending)
      await this.#place.withSftp((sftp) => sftp.close(handle)).catch(() => {})
    }
  }

  async #replace(
    sftp: SftpCalls,
    file: string,
    chunks: AsyncIterable<Uint8Array>,
    mode: number,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const draft = `${this.#place.partial}/${randomId()}`
    const handle = await sftp.open(draft, openFlags.write | openFlags.create | openFlags.exclusive, 0o600)
    try {
      try {
        await pour(sftp, handle, chunks, 0)
        await sftp.fchmod(handle, mode)
      } finally {
        await sftp.close(handle)
      }
      throwIfAborted(signal, 'Writing the file')
      await sftp.replace(draft, file)
    } catch (error) {
      // Check for a full disk before removing the partial file.
      const full = statusOf(error) === sftpStatus.failure && (await sftp.isFull(this.#place.partial))
      await sftp.unlink(draft).catch(() => {})
      throw full ? diskFull(`Writing ${file}`, error) : error
    }
  }
}

const dots = new Set(['.', '..'])

/** Writes several chunks at once. Each is a copy, because the caller may reuse its buffer. */
async function pour(
  sftp: SftpCalls,
  handle: Buffer,
  chunks: AsyncIterable<Uint8Array>,
  from: number,
): Promise<void> {
  const pending = new Set<Promise<void>>()
  let failure: { error: unknown } | undefined
  let at = from
  for await (const chunk of chunks) {
    for (let offset = 0; offset < chunk.byteLength; offset += PIECE) {
      const piece = chunk.slice(offset, offset + PIECE)
      const write = sftp
        .write(handle, piece, at)
        .catch((error) => {
          failure ??= { error }
        })
        .finally(() => pending.delete(write))
      pending.add(write)
      at += piece.byteLength
      if (pending.size >= AHEAD) await Promise.race(pending)
      if (failure) throw failure.error
    }
  }
  await Promise.all(pending)
  if (failure) throw failure.error
}

async function appendTo(
  sftp: SftpCalls,
  file: string,
  chunks: AsyncIterable<Uint8Array>,
  there: SftpStats | undefined,
  mode: number | undefined,
): Promise<void> {
  if (there && !isFile(there)) throw fault('invalid_argument', file, 'is not a regular file')
  const handle = await sftp.open(file, openFlags.write | openFlags.append | openFlags.create, mode ?? 0o644)
  try {
    await pour(sftp, handle, chunks, there?.size ?? 0)
  } finally {
    await sftp.close(handle)
  }
}

async function makeParents(sftp: SftpCalls, file: string, given: string): Promise<void> {
  const parent = file.slice(0, file.lastIndexOf('/'))
  const there = await sftp.stat(parent).catch(ifMissing)
  if (there && !isFolder(there)) throw fault('not_a_directory', given)
  if (there) return
  await makeParents(sftp, parent, given)
  await sftp.mkdir(parent).catch(async (error) => {
    if (!(await sftp.stat(parent).then(isFolder, () => false))) throw error
  })
}

async function walk(
  sftp: SftpCalls,
  folder: string,
  prefix: string,
  recursive: boolean,
  signal: AbortSignal | undefined,
): Promise<FileEntry[]> {
  throwIfAborted(signal, 'Listing')
  const entries: FileEntry[] = []
  for (const { filename, attrs } of await sftp.readdir(folder))
    if (!dots.has(filename)) entries.push({ name: filename, path: prefix + filename, ...factsOf(attrs) })
  if (!recursive) return entries
  for (const { type, name, path } of entries.filter((entry) => entry.type === 'directory'))
    entries.push(
      // Skip files that vanished meanwhile or cannot be read.
      ...(type === 'directory'
        ? await walk(sftp, `${folder}/${name}`, `${path}/`, true, signal).catch(ifUnreadable)
        : []),
    )
  return entries
}

function factsOf(facts: SftpStats): FileStat {
  const type = isFile(facts) ? 'file' : isFolder(facts) ? 'directory' : isLink(facts) ? 'symlink' : 'other'
  return { type, size: facts.size, mode: facts.mode & 0o7777, mtimeMs: facts.mtime * 1000 }
}

function ifMissing(error: unknown): undefined {
  if (statusOf(error) !== sftpStatus.noSuchFile) throw error
}

function ifUnreadable(error: unknown): [] {
  const status = statusOf(error)
  if (status !== sftpStatus.noSuchFile && status !== sftpStatus.permissionDenied) throw error
  return []
}

function fault(code: SandboxErrorCode, given: string, what?: string, cause?: unknown): SandboxError {
  const words = what === undefined ? code.replaceAll('_', ' ') : what
  const message =
    cause === undefined ? `${given}: ${words}.` : `${words} ${given}: ${code.replaceAll('_', ' ')}.`
  return new SandboxError(code, message, { provider: 'ssh', cause })
}

function rootFault(what: string): SandboxError {
  return new SandboxError('invalid_argument', `The sandbox’s working directory itself cannot be ${what}.`, {
    provider: 'ssh',
    hint: 'Remove its content, or destroy the sandbox.',
  })
}
