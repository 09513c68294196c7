import { createHash, randomBytes } from 'node:crypto'
import { type BigIntStats, constants } from 'node:fs'
import { chmod, copyFile, link, lstat, mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { errnoOf } from '@sandkasten/sdk/internal'

/**
 * Read-only copies of this machine's files, which sandboxes share:
 *
 * ```text
 * <root>/read-only/<name>                         one copy of each version of a file
 * <root>/sandboxes/<id>/read-only/<name>          a hard link to it, and mounted read-only in this sandbox
 * ```
 *
 * A sandbox sees only files that were shared with it. It keeps them when the original changes or goes, and its end
 * removes its links. A copy with a single link is unused.
 *
 * The name is a digest of what the kernel says about the file. A change of its content changes its ctime, which no
 * program can set, so the file need not be read to find its copy.
 */
export class ReadOnlyFiles {
  readonly #root: () => string

  constructor(root: () => string) {
    this.#root = root
  }

  /** Returns the name of the copy in the sandbox's folder. Undefined: this file has to be copied into the sandbox. */
  async share(file: string, sandboxFolder: string): Promise<string | undefined> {
    // A missing or unreadable file: copying it reports the reason.
    const source = await open(file, constants.O_RDONLY | constants.O_NONBLOCK).catch(() => undefined)
    if (!source) return undefined
    try {
      const stats = await source.stat({ bigint: true })
      if (!stats.isFile() || stats.size < minBytes || isFresh(stats)) return undefined
      const name = nameOf(stats)
      const copy = path.join(this.#folder, name)
      const shown = path.join(readOnlyFolder(sandboxFolder), name)
      if (await linked(copy, shown, stats)) return name
      const made = await this.#copy(`/proc/self/fd/${source.fd}`, copy)
      const same = nameOf(await source.stat({ bigint: true })) === name
      if (!same) await rm(copy, { force: true })
      return made && same && (await linked(copy, shown, stats)) ? name : undefined
    } finally {
      await source.close()
    }
  }

  /** Removes copies that no sandbox has had for a week, and drafts of processes that were killed. */
  async sweep(now = Date.now()): Promise<void> {
    for (const name of await readdir(this.#folder).catch(() => [])) {
      const file = path.join(this.#folder, name)
      const stats = await lstat(file).catch(() => undefined)
      if (stats?.nlink !== 1) continue
      // The end of a sandbox changes the ctime, because it removes a link.
      const isUnused = name.startsWith('.') ? now - stats.mtimeMs > draftMs : now - stats.ctimeMs > unusedMs
      if (isUnused) await rm(file, { force: true })
    }
  }

  /** False where the disk has no room for the copy. */
  async #copy(source: string, copy: string): Promise<boolean> {
    const draft = path.join(this.#folder, `.${randomBytes(8).toString('hex')}`)
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 })
      await copyFile(source, draft, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
      await chmod(draft, 0o555)
      await rename(draft, copy)
      return true
    } catch (error) {
      await rm(draft, { force: true })
      if (hasNoRoom(error)) return false
      throw error
    }
  }

  get #folder(): string {
    return path.join(this.#root(), 'read-only')
  }
}

/** The folder of a sandbox that it sees as `READ_ONLY_FILES`. */
export function readOnlyFolder(sandboxFolder: string): string {
  return path.join(sandboxFolder, 'read-only')
}

function nameOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return createHash('sha256').update([dev, ino, size, mtimeNs, ctimeNs].join()).digest('hex')
}

/** Two changes within one tick of the kernel's clock have the same ctime. */
function isFresh({ ctimeMs }: BigIntStats): boolean {
  return Math.abs(Date.now() - Number(ctimeMs)) < freshMs
}

function hasNoRoom(error: unknown): boolean {
  const code = errnoOf(error)
  return code === 'ENOSPC' || code === 'EDQUOT'
}

/**
 * False if the copy is missing or incomplete, has the most links, or is on another file system than the sandbox, or if
 * there is no room for a link.
 */
async function linked(copy: string, shown: string, { size }: BigIntStats): Promise<boolean> {
  try {
    // After a power failure, a new file can be shorter than what was written.
    if (BigInt((await lstat(copy)).size) !== size) return false
    await link(copy, shown)
    return true
  } catch (error) {
    const code = errnoOf(error)
    if (code === 'EEXIST') return BigInt((await lstat(shown)).size) === size
    if (code === 'ENOENT' || code === 'EMLINK' || code === 'EXDEV' || hasNoRoom(error)) return false
    throw error
  }
}

/** Copying is faster for smaller files. */
const minBytes = 4n * 1024n * 1024n
const freshMs = 1000
const draftMs = 60 * 60_000
const unusedMs = 7 * 24 * 60 * 60_000
