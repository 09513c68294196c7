import { constants } from 'node:fs'
import {
  chmod,
  lstat,
  mkdir,
  open,
  readdir,
  readlink,
  rename,
  rm,
  rmdir,
  stat,
  symlink,
  unlink,
} from 'node:fs/promises'
import path from 'node:path'
import type { FilesDriver } from '../../core/driver.ts'
import { SandboxError } from '../../errors.ts'
import { errnoOf, guarded } from '../../folder/errors.ts'
import { removeFolder } from '../../folder/remove.ts'
import { throwIfAborted } from '../../shared/calls/abort.ts'
import { randomId } from '../../shared/ids.ts'
import { ListingSize } from '../../shared/listing.ts'
import type { CallOptions, FileChange, FileEntry, FileStat } from '../../spec/index.ts'
import { confine } from './paths.ts'
import { watchFolder } from './watch.ts'

/**
 * Files of one local sandbox. Every path goes through `confine`, and the result is opened without following links. Whole
 * files are written to `partial`, beside the workspace, and renamed into it.
 */
export class LocalFiles implements FilesDriver {
  readonly #root: string
  readonly #partial: string
  readonly #check: () => Promise<unknown>

  constructor(options: { root: string; partial: string; check: () => Promise<unknown> }) {
    this.#root = options.root
    this.#partial = options.partial
    this.#check = options.check
  }

  async readStream(
    given: string,
    range: { start: number; end?: number },
  ): Promise<AsyncIterable<Uint8Array>> {
    const file = await this.#resolve(given)
    const handle = await guarded(`Reading ${given}`, async () => {
      // Non-blocking, so that a FIFO at this path cannot block us.
      const opened = await open(file, constants.O_RDONLY | noFollow | nonBlock)
      const facts = await opened.stat()
      if (facts.isFile()) return opened
      await opened.close()
      if (facts.isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' })
      throw new SandboxError('invalid_argument', `${given} is not a regular file.`, { provider: 'local' })
    })
    const { start, end } = range
    // createReadStream's end is inclusive, so it cannot express an empty range.
    const last = end === undefined ? undefined : Math.max(end - 1, start)
    const stream = handle.createReadStream({ start, end: last, highWaterMark: 256 * 1024 })
    if (end === start) stream.destroy()
    return end === start ? nothing() : stream
  }

  async write(
    given: string,
    chunks: AsyncIterable<Uint8Array>,
    options: { mode?: number; append: boolean },
    { signal }: CallOptions,
  ): Promise<void> {
    const file = await this.#resolve(given)
    await guarded(`Writing ${given}`, async () => {
      if (file === this.#root) throw Object.assign(new Error(), { code: 'EISDIR' })
      await makeParents(file)
      const there = await lstat(file).catch(ignoreMissing)
      if (there?.isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' })
      if (options.append) await append(file, chunks, options.mode)
      else
        await this.#replace(file, chunks, options.mode ?? (there ? there.mode & 0o7777 : undefined), signal)
    })
  }

  async list(
    given: string,
    { recursive }: { recursive: boolean },
    { signal }: CallOptions,
  ): Promise<FileEntry[]> {
    const folder = await this.#resolve(given)
    return guarded(`Listing ${given}`, () => walk(folder, '', recursive, new ListingSize(), signal))
  }

  async stat(given: string, { follow }: { follow: boolean }): Promise<FileStat> {
    const file = await this.#resolve(given, follow)
    return guarded(`Reading the attributes of ${given}`, async () =>
      factsOf(await (follow ? stat(file) : lstat(file))),
    )
  }

  async mkdir(given: string, { recursive, mode }: { recursive: boolean; mode?: number }): Promise<void> {
    const folder = await this.#resolve(given)
    await guarded(`Creating the folder ${given}`, () => mkdir(folder, { recursive, mode }))
  }

  async rename(from: string, to: string): Promise<void> {
    const [source, target] = [await this.#resolve(from, false), await this.#resolve(to, false)]
    if (source === this.#root || target === this.#root) throw rootError('renamed')
    await guarded(`Renaming ${from} to ${to}`, () => rename(source, target))
  }

  async rm(given: string, { recursive, force }: { recursive: boolean; force: boolean }): Promise<void> {
    const file = await this.#resolve(given, false)
    if (file === this.#root) throw rootError('removed')
    await guarded(`Removing ${given}`, async () => {
      const facts = await lstat(file).catch((error) => {
        if (force) return ignoreMissing(error)
        throw error
      })
      if (!facts) return
      if (!facts.isDirectory()) await unlink(file)
      else if (recursive) await removeFolder(file)
      else await rmdir(file)
    })
  }

  async chmod(given: string, mode: number): Promise<void> {
    const file = await this.#resolve(given)
    await guarded(`Changing the mode of ${given}`, () => chmod(file, mode))
  }

  /** A link may have any target; access through it is confined. */
  async symlink(target: string, given: string): Promise<void> {
    const file = await this.#resolve(given, false)
    await guarded(`Linking ${given}`, () => symlink(target, file))
  }

  async readlink(given: string): Promise<string> {
    const file = await this.#resolve(given, false)
    return guarded(`Reading the link ${given}`, () => readlink(file))
  }

  async watch(
    given: string,
    { recursive }: { recursive: boolean },
    { signal }: CallOptions,
  ): Promise<AsyncIterable<FileChange>> {
    const file = await this.#resolve(given)
    return guarded(`Watching ${given}`, async () => {
      const facts = await lstat(file)
      if (facts.isDirectory()) return watchFolder(file, { recursive, signal })
      return watchFolder(path.dirname(file), { recursive: false, only: path.basename(file), signal })
    })
  }

  async #resolve(given: string, follow = true): Promise<string> {
    await this.#check()
    return confine(this.#root, given, { follow })
  }

  async #replace(
    file: string,
    chunks: AsyncIterable<Uint8Array>,
    mode: number | undefined,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const partial = path.join(this.#partial, randomId())
    try {
      const handle = await open(partial, 'wx', 0o644)
      try {
        await handle.writeFile(chunks)
        if (mode !== undefined) await handle.chmod(mode)
      } finally {
        await handle.close()
      }
      throwIfAborted(signal, 'Writing the file')
      await rename(partial, file)
    } catch (error) {
      await rm(partial, { force: true })
      throw error
    }
  }
}

const noFollow = constants.O_NOFOLLOW ?? 0
const nonBlock = constants.O_NONBLOCK ?? 0

/** Reports a file in the way of a folder as `not_a_directory` instead of `file_exists`. */
async function makeParents(file: string): Promise<void> {
  await mkdir(path.dirname(file), { recursive: true }).catch((error) => {
    throw errnoOf(error) === 'EEXIST' ? Object.assign(error, { code: 'ENOTDIR' }) : error
  })
}

async function append(file: string, chunks: AsyncIterable<Uint8Array>, mode = 0o644): Promise<void> {
  const handle = await open(
    file,
    constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | noFollow | nonBlock,
    mode,
  )
  try {
    await handle.writeFile(chunks)
  } finally {
    await handle.close()
  }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

async function walk(
  folder: string,
  prefix: string,
  recursive: boolean,
  size: ListingSize,
  signal: AbortSignal | undefined,
): Promise<FileEntry[]> {
  throwIfAborted(signal, 'Listing')
  const names = await readdir(folder)
  const entries: FileEntry[] = []
  for (let at = 0; at < names.length; at += 64) {
    const found = await Promise.all(names.slice(at, at + 64).map((name) => entryOf(folder, prefix, name)))
    for (const entry of found) {
      if (!entry) continue
      size.add(entry.path)
      entries.push(entry)
    }
  }
  if (!recursive) return entries
  for (const entry of entries.filter((entry) => entry.type === 'directory')) {
    // Skip files that vanished meanwhile or cannot be read.
    const below = walk(path.join(folder, entry.name), `${entry.path}/`, true, size, signal)
    for (const found of await below.catch(ignoreUnreadable)) entries.push(found)
  }
  return entries
}

async function entryOf(folder: string, prefix: string, name: string): Promise<FileEntry | undefined> {
  const facts = await lstat(path.join(folder, name)).catch(ignoreMissing)
  return facts && { name, path: prefix + name, ...factsOf(facts) }
}

function factsOf(facts: Awaited<ReturnType<typeof lstat>>): FileStat {
  const type = facts.isFile()
    ? 'file'
    : facts.isDirectory()
      ? 'directory'
      : facts.isSymbolicLink()
        ? 'symlink'
        : 'other'
  return { type, size: Number(facts.size), mode: Number(facts.mode) & 0o7777, mtimeMs: Number(facts.mtimeMs) }
}

function ignoreMissing(error: unknown): undefined {
  if (errnoOf(error) !== 'ENOENT') throw error
}

function ignoreUnreadable(error: unknown): [] {
  if (!['ENOENT', 'EACCES', 'ENOTDIR'].includes(errnoOf(error) ?? '')) throw error
  return []
}

function rootError(what: string): SandboxError {
  return new SandboxError('invalid_argument', `The sandbox’s working directory itself cannot be ${what}.`, {
    provider: 'local',
    hint: 'Remove its content, or destroy the sandbox.',
  })
}
