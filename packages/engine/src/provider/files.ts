import { posix } from 'node:path'
import type { FileFacts, RunnerClient, WatchEvent } from '@sandkasten/runner-client'
import type { CallOptions, FileChange, FileEntry, FileStat, FileType } from '@sandkasten/sdk'
import { SandboxError } from '@sandkasten/sdk'
import { type Access, errnoHint, type FilesDriver, ListingSize, randomId } from '@sandkasten/sdk/provider'
import { READ_ONLY_FILES } from '../isolators/isolator.ts'

/** Files as the runner sees them: inside the sandbox, as its user. No path of the host is ever involved. */
export class EngineFiles implements FilesDriver {
  readonly #client: () => Promise<RunnerClient>
  readonly #cwd: string
  readonly #access: Access
  readonly #share: (file: string) => Promise<string | undefined>

  constructor(
    client: () => Promise<RunnerClient>,
    workdir: string,
    access: Access,
    share: (file: string) => Promise<string | undefined>,
  ) {
    this.#client = client
    this.#share = share
    this.#cwd = workdir
    this.#access = access
  }

  async readStream(path: string, { start, end }: { start: number; end?: number }, { signal }: CallOptions) {
    const { files } = await this.#client()
    const length = end === undefined ? undefined : end - start
    const range = { cwd: this.#cwd, offset: start, length, signal }
    const { facts, content } = await this.#named(path, files.readStream(path, range))
    if (facts.kind === 'directory') throw new SandboxError('is_a_directory', `${path} is a directory.`)
    return content
  }

  async write(
    path: string,
    chunks: AsyncIterable<Uint8Array>,
    { mode, append }: { mode?: number; append: boolean },
    { signal }: CallOptions,
  ): Promise<void> {
    const { files } = await this.#client()
    await this.#named(
      path,
      files.write(path, chunks, { cwd: this.#cwd, mode, append, parents: true, signal }),
    )
  }

  async list(
    path: string,
    { recursive }: { recursive: boolean },
    { signal }: CallOptions,
  ): Promise<FileEntry[]> {
    const { files } = await this.#client()
    const entries: FileEntry[] = []
    const size = new ListingSize()
    for await (const entry of files.list(path, { cwd: this.#cwd, depth: recursive ? maxDepth : 1, signal })) {
      size.add(entry.path)
      entries.push({
        name: entry.path.slice(entry.path.lastIndexOf('/') + 1),
        path: entry.path,
        ...statOf(entry),
      })
    }
    return entries
  }

  async stat(path: string, { follow }: { follow: boolean }, { signal }: CallOptions): Promise<FileStat> {
    const { files } = await this.#client()
    return statOf(await this.#named(path, files.stat(path, { cwd: this.#cwd, noFollow: !follow, signal })))
  }

  async mkdir(
    path: string,
    { recursive, mode }: { recursive: boolean; mode?: number },
    { signal }: CallOptions,
  ): Promise<void> {
    const { files } = await this.#client()
    await this.#named(path, files.mkdir(path, { cwd: this.#cwd, parents: recursive, mode, signal }))
  }

  async rename(from: string, to: string, { signal }: CallOptions): Promise<void> {
    const { files } = await this.#client()
    await this.#named(`${from} to ${to}`, files.rename(from, to, { cwd: this.#cwd, signal }))
  }

  async rm(
    path: string,
    { recursive, force }: { recursive: boolean; force: boolean },
    { signal }: CallOptions,
  ): Promise<void> {
    const { files } = await this.#client()
    await this.#named(path, files.remove(path, { cwd: this.#cwd, recursive, force, signal }))
  }

  async chmod(path: string, mode: number, { signal }: CallOptions): Promise<void> {
    const { files } = await this.#client()
    await this.#named(path, files.chmod(path, mode, { cwd: this.#cwd, signal }))
  }

  /** The protocol has no call for this; every image that can run anything has `ln`. */
  async symlink(target: string, path: string, call: CallOptions): Promise<void> {
    const exists = await this.stat(path, { follow: false }, call).then(
      () => true,
      (error) => {
        if (SandboxError.is(error, 'file_not_found')) return false
        throw error
      },
    )
    if (exists) throw new SandboxError('file_exists', `${path} exists.`)
    await this.#link(target, path)
  }

  async shareFile(localPath: string, path: string, call: CallOptions): Promise<boolean> {
    const name = await this.#share(localPath)
    if (name === undefined) return false
    const shown = `${READ_ONLY_FILES}/${name}`
    const { files } = await this.#client()
    // A sandbox that an older version started does not see the folder.
    const isShown = await files.stat(shown, { signal: call.signal }).then(
      ({ kind }) => kind === 'file',
      (error) => {
        if (SandboxError.is(error, 'file_not_found')) return false
        throw error
      },
    )
    if (!isShown) return false
    const draft = `${path}.${randomId()}.part`
    await this.mkdir(posix.dirname(posix.resolve(this.#cwd, path)), { recursive: true }, call)
    await this.#link(shown, draft)
    try {
      await this.rename(draft, path, call)
    } catch (error) {
      await this.rm(draft, { recursive: false, force: true }, {}).catch(() => {})
      throw error
    }
    return true
  }

  async #link(target: string, path: string): Promise<void> {
    const client = await this.#client()
    const argv = ['ln', '-s', '-n', '--', target, path]
    const { exitCode, stderr } = await client.run({ id: `ln-${crypto.randomUUID()}`, argv, cwd: this.#cwd })
    if (exitCode !== 0)
      throw new SandboxError('file_not_found', `Linking ${path}: ${stderr.toString().trim()}`)
  }

  async readlink(path: string, { signal }: CallOptions): Promise<string> {
    const { files } = await this.#client()
    const { kind, target } = await this.#named(
      path,
      files.stat(path, { cwd: this.#cwd, noFollow: true, signal }),
    )
    if (kind !== 'symlink' || !target)
      throw new SandboxError('invalid_argument', `${path} is not a symbolic link.`)
    return Buffer.from(target).toString('utf8')
  }

  async watch(path: string, { recursive }: { recursive: boolean }, { signal }: CallOptions) {
    const { files } = await this.#client()
    return changesOf(await this.#named(path, files.watch(path, { cwd: this.#cwd, recursive, signal })))
  }

  /** Adds the path to an error of the runner. */
  async #named<T>(path: string, work: Promise<T>): Promise<T> {
    try {
      return await work
    } catch (error) {
      if (!SandboxError.is(error) || error.code === 'aborted') throw error
      const { code, message, details } = error
      const absolute = posix.resolve(this.#cwd, path)
      const hint = errnoHint(details.errno as number | undefined, absolute, this.#access)
      throw new SandboxError(code, `${path}: ${message}`, { cause: error, details, hint })
    }
  }
}

/** As deep as any path can be. */
const maxDepth = 4096

function statOf({ kind, size, mode, mtimeMs, uid, gid }: FileFacts): FileStat {
  const type: FileType = kind === 'file' || kind === 'directory' || kind === 'symlink' ? kind : 'other'
  return { type, size, mode: mode & 0o7777, mtimeMs, uid, gid }
}

async function* changesOf(events: AsyncIterable<WatchEvent>): AsyncGenerator<FileChange> {
  for await (const { event, path } of events) {
    const type = changes[event]
    if (type) yield { type, path }
  }
}

const changes: Readonly<Record<WatchEvent['event'], FileChange['type'] | undefined>> = {
  created: 'created',
  movedTo: 'created',
  modified: 'changed',
  written: undefined,
  attributes: 'changed',
  deleted: 'removed',
  movedFrom: 'removed',
  overflow: undefined,
}
