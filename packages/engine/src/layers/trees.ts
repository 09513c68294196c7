import { execFile } from 'node:child_process'
import { existsSync, renameSync } from 'node:fs'
import { promisify } from 'node:util'
import { SandboxError } from '@sandkasten/sdk'
import { translate } from '@sandkasten/sdk/internal'
import { errnoName } from '../errno.ts'
import { SmallProcess } from '../small-process.ts'

/** The space that a tree uses on the disk. A file with several names counts once. */
export interface TreeSize {
  readonly bytes: number
  readonly files: number
}

/**
 * Runs programs with access to the files of sandboxes if the engine lacks that permission (`isolators/oci/privileges`).
 */
export interface TreeRights {
  command(runner: string, program: string, ...args: string[]): readonly [string, ...string[]]
}

/**
 * Works on whole disks of sandboxes through `runner tree` (`runner/src/tree/mod.rs`). Their content is hostile and of
 * any depth, and links are never followed. Each operation is a process that ends with this one.
 */
export class Trees {
  readonly #runner: () => Promise<string>
  readonly #rights: TreeRights | undefined
  #process: Promise<SmallProcess> | undefined

  constructor(runner: () => Promise<string>, rights?: TreeRights) {
    this.#runner = runner
    this.#rights = rights
  }

  /** Copies a tree with all metadata. `to` must not exist, and does not exist if this rejects. */
  copy(from: string, to: string): Promise<TreeSize> {
    return this.#run('Cannot copy the disk', ['copy', from, to])
  }

  /** Copies the folder `upper` of the disk in a file that is not mounted. */
  copyDisk(file: string, to: string): Promise<TreeSize> {
    return this.#run('Cannot copy the disk', ['copy', '--disk', file, to])
  }

  /** Merges layers, uppermost first, into one that shows the same on top of `lower`. */
  squash(to: string, layers: readonly string[], onto: readonly string[]): Promise<TreeSize> {
    // For an ordinary account overlayfs keeps its attributes in `user.*`, because only root may write `trusted.*`.
    const user = this.#rights ? ['--user'] : []
    const ground = onto.length > 0 ? ['--onto', ...onto] : []
    return this.#run('Cannot merge layers', ['squash', ...user, to, ...layers, ...ground])
  }

  measure(path: string): Promise<TreeSize> {
    return this.#run('Cannot measure the disk', ['measure', path])
  }

  /** Syncs these files and trees, so that they survive a power cut. */
  async sync(...paths: string[]): Promise<void> {
    await this.#run('Cannot sync the disk', ['sync', ...paths])
  }

  /** Syncs the whole file system of this folder. */
  async syncAll(path: string): Promise<void> {
    await this.#run('Cannot sync the disk', ['sync', '--all', path])
  }

  /** Spreads new subfolders of these folders over the disk (see `runner/src/tree/spread.rs`). */
  async spread(...paths: string[]): Promise<void> {
    await this.#run('Cannot spread folders over the disk', ['spread', ...paths])
  }

  /** Other processes may remove the same path at the same time. */
  async remove(...paths: string[]): Promise<void> {
    const there = paths.filter((path) => existsSync(path))
    if (there.length === 0) return
    try {
      await this.#run('Cannot remove a disk', ['remove', ...there])
    } catch (error) {
      if (there.some((path) => existsSync(path))) throw error
    }
  }

  /** Renames a sandbox's folder. Renaming needs write permission in the folder itself. */
  async move(from: string, to: string): Promise<void> {
    if (!this.#rights) return renameSync(from, to)
    const mv = ['/bin/mv', '--no-target-directory', '--', from, to] as const
    const [program, ...args] = this.#rights.command(await this.#runner(), ...mv)
    await promisify(execFile)(program, args, { cwd: '/' })
  }

  /** Waits for operations in progress. */
  async close(): Promise<void> {
    const process = this.#process
    this.#process = undefined
    await (await process?.catch(() => undefined))?.close()
  }

  async #run(what: string, args: string[]): Promise<TreeSize> {
    const answer = parse(await this.#ask(args).catch((cause) => noAnswer(what, cause)))
    if (typeof answer?.bytes === 'number' && typeof answer.files === 'number')
      return { bytes: answer.bytes, files: answer.files }
    if (typeof answer?.errno !== 'number') return noAnswer(what)
    throw translate(Object.assign(new Error(String(answer.error)), { code: errnoName(answer.errno) }), what)
  }

  async #ask(words: readonly string[]): Promise<string> {
    if (!(await this.#process?.catch(() => undefined))?.alive)
      this.#process = this.#runner().then((runner) => {
        const serve = [runner, 'tree', 'serve'] as const
        const [program, ...args] = this.#rights?.command(runner, ...serve) ?? serve
        return new SmallProcess(program, args)
      })
    return (await this.#process!).ask(`${words.join('\0')}\0`)
  }
}

function noAnswer(what: string, cause?: unknown): never {
  throw new SandboxError('internal', `${what}: \`runner tree\` did not answer.`, { cause })
}

function parse(text: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return undefined
  }
}
