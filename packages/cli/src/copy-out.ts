import { createWriteStream, realpathSync, statSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type FileStat, SandboxError, type SandboxFiles } from '@sandkasten/sdk'
import { randomId } from '@sandkasten/sdk/provider'
import type { MountOption, OutOption } from './mount-option.ts'
import { sizeText } from './progress.ts'

/** A larger result is most likely a mistake and would use up the disk's inodes. */
const MOST_ENTRIES = 100_000
const MOST_DEPTH = 100

export interface PlannedOut {
  readonly from: string
  readonly to: string
}

/**
 * Decides where results go, before the sandbox starts. Like `cp -r`: into an existing folder, else under the given
 * name.
 * A sandbox with write access to the destination could put a symbolic link there, so a destination in a writable
 * mount is refused.
 */
export function planOut(outs: readonly OutOption[], mounts: readonly MountOption[]): PlannedOut[] {
  const writable = mounts.filter(({ readOnly }) => !readOnly).map(({ source }) => realPath(source))
  return outs.map(({ from, to }) => {
    const name = path.posix.basename(path.posix.resolve('/', from))
    const intoFolder = to.endsWith('/') || statSync(to, { throwIfNoEntry: false })?.isDirectory()
    const wanted = intoFolder && name ? path.join(to, name) : path.resolve(to)
    // A link at the destination itself is replaced, not followed.
    const place = path.join(realPath(path.dirname(wanted)), path.basename(wanted))
    const shared = writable.find((source) => isWithin(place, source) || isWithin(source, place))
    if (shared !== undefined)
      throw new SandboxError('invalid_argument', `${place} is in the writable mount ${shared}.`, {
        hint: 'Copy to a folder that the sandbox cannot write to.',
      })
    return { from, to: place }
  })
}

/**
 * Copies files and folders out of a sandbox. Names from a sandbox are hostile: each must be a single path component.
 * Symbolic links, devices and other special files are skipped.
 */
export async function copyOut(
  files: SandboxFiles,
  { from, to }: PlannedOut,
  budget: CopyBudget,
): Promise<void> {
  const facts = await files.stat(from, { signal: budget.signal }).catch((error: unknown) => {
    if (!SandboxError.is(error, 'file_not_found')) throw error
    throw new SandboxError('file_not_found', `--out copied nothing: ${from} does not exist in the sandbox.`, {
      cause: error,
      hint: 'Relative paths start in the command’s working folder.',
    })
  })
  await copyTree(files, { from, to, facts }, budget)
}

/** Copies a file or a folder of a sandbox, whose `stat` is known. */
export async function copyTree(
  files: SandboxFiles,
  { from, to, facts }: PlannedOut & { facts: FileStat },
  budget: CopyBudget,
): Promise<void> {
  await mkdir(path.dirname(to), { recursive: true })
  if (facts.type === 'directory') await copyFolder(files, from, to, budget, 0)
  else if (facts.type === 'file') await copyFile(files, from, to, facts.mode, budget)
  else throw new SandboxError('invalid_argument', `${from} is not a file or a folder.`)
}

export interface CopyBudgetOptions {
  signal: AbortSignal
  /** For all `--out` options of one run. Default: unlimited. */
  limitBytes?: number
  onBytes?: (count: number) => void
  onSkip?: (path: string) => void
}

/** The limits of a copy, and what was copied. */
export class CopyBudget {
  files = 0
  #bytes = 0
  #entries = 0
  readonly #limitBytes: number
  readonly #onBytes: CopyBudgetOptions['onBytes']
  readonly #onSkip: CopyBudgetOptions['onSkip']
  readonly signal: AbortSignal

  constructor({ signal, limitBytes = Infinity, onBytes, onSkip }: CopyBudgetOptions) {
    this.#limitBytes = limitBytes
    this.#onBytes = onBytes
    this.#onSkip = onSkip
    this.signal = signal
  }

  skip(at: string): void {
    console.error(`sandkasten: skipped ${JSON.stringify(at)}, which is not a file or a folder.`)
    this.#onSkip?.(at)
  }

  bytes(count: number): void {
    this.#bytes += count
    this.#onBytes?.(count)
    if (this.#bytes > this.#limitBytes)
      throw new SandboxError('too_large', `The results are larger than ${sizeText(this.#limitBytes)}.`, {
        hint: 'Copy less, or raise the limit with --out-limit.',
      })
  }

  entry(): void {
    this.#entries += 1
    if (this.#entries > MOST_ENTRIES)
      throw new SandboxError('too_large', `There are more than ${MOST_ENTRIES} files and folders.`, {
        hint: 'Copy less, or pack them into an archive in the sandbox.',
      })
  }
}

async function copyFolder(
  files: SandboxFiles,
  from: string,
  to: string,
  budget: CopyBudget,
  depth: number,
): Promise<void> {
  if (depth > MOST_DEPTH)
    throw new SandboxError('too_large', `${from} is more than ${MOST_DEPTH} folders deep.`)
  await mkdir(to, { recursive: true })
  for (const entry of await files.list(from, { signal: budget.signal })) {
    budget.entry()
    const [inside, outside] = [path.posix.join(from, entry.name), path.join(to, entry.name)]
    const plain =
      entry.name !== '' && entry.name !== '.' && entry.name !== '..' && !/[/\\\0]/.test(entry.name)
    if (plain && entry.type === 'directory') await copyFolder(files, inside, outside, budget, depth + 1)
    else if (plain && entry.type === 'file') await copyFile(files, inside, outside, entry.mode, budget)
    else budget.skip(inside)
  }
}

/** Writes the file atomically. Replaces an existing link instead of following it. */
async function copyFile(
  files: SandboxFiles,
  from: string,
  to: string,
  mode: number | undefined,
  budget: CopyBudget,
): Promise<void> {
  const part = `${to}.${randomId(8)}.part`
  try {
    const source = Readable.fromWeb((await files.readStream(from, { signal: budget.signal })) as never)
    const output = createWriteStream(part, { flags: 'wx', mode: (mode ?? 0o644) & 0o777 })
    await pipeline(
      source,
      async function* (chunks: AsyncIterable<Uint8Array>) {
        for await (const chunk of chunks) {
          budget.bytes(chunk.length)
          yield chunk
        }
      },
      output,
    )
    await rename(part, to)
    budget.files += 1
  } catch (error) {
    await rm(part, { force: true })
    throw error
  }
}

/** Resolves links in the part of the path that exists. */
function realPath(file: string): string {
  try {
    return realpathSync(file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || path.dirname(file) === file) throw error
    return path.join(realPath(path.dirname(file)), path.basename(file))
  }
}

function isWithin(place: string, folder: string): boolean {
  const relative = path.relative(folder, place)
  return relative !== '..' && !relative.startsWith(`..${path.sep}`)
}
