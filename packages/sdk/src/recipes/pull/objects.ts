import { join } from 'node:path'
import { Readable } from 'node:stream'
import { SandboxError } from '../../errors.ts'
import { git } from '../host/git.ts'
import type { RemoteEntry } from '../remote/probe.ts'
import type { RecipeSandbox } from '../types.ts'

export interface TreeEntry {
  mode: string
  id: string
}

interface Limits {
  maxFileBytes: number
  maxTotalBytes: number
}

/**
 * A temporary repository that stores content from the sandbox as blobs and trees. Only our configuration applies,
 * without filters, hooks or attributes, and names from the sandbox never become paths.
 */
export class ObjectStore {
  readonly gitDir: string
  readonly #index: string
  readonly #limits: Limits
  readonly #signal: AbortSignal | undefined
  #taken = 0

  constructor(temp: string, limits: Limits, signal: AbortSignal | undefined) {
    this.gitDir = join(temp, 'objects.git')
    this.#index = join(temp, 'objects.index')
    this.#limits = limits
    this.#signal = signal
  }

  async init(objectFormat = 'sha1'): Promise<void> {
    await git(
      ['init', '--quiet', '--bare', '--template=', `--object-format=${objectFormat}`, '--', this.gitDir],
      { signal: this.#signal },
    )
  }

  run(
    args: readonly string[],
    options: { stdin?: string | Readable; accept?: readonly number[]; maxOutputBytes?: number } = {},
  ) {
    const config = [
      '-c',
      'core.protectHFS=true',
      '-c',
      'core.protectNTFS=true',
      '-c',
      'core.attributesFile=/dev/null',
    ]
    const env = {
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_INDEX_FILE: this.#index,
      GIT_ATTR_NOSYSTEM: '1',
    }
    return git([`--git-dir=${this.gitDir}`, ...config, ...args], { ...options, env, signal: this.#signal })
  }

  /** Stores a file or link of the sandbox as a blob; undefined if it is too large or gone. */
  async take(
    sandbox: RecipeSandbox,
    path: string,
    there: RemoteEntry,
    mode: number | undefined,
  ): Promise<TreeEntry | 'too large' | 'gone'> {
    if (there.type === 'symlink') return { mode: '120000', id: await this.blob(there.target) }
    const executable =
      there.type === 'file' && there.executable !== undefined ? there.executable : ((mode ?? 0) & 0o100) !== 0
    let tooLarge = false
    const chunks = async function* (this: ObjectStore): AsyncGenerator<Uint8Array> {
      let size = 0
      for await (const chunk of await sandbox.files.readStream(path, { signal: this.#signal })) {
        size += chunk.byteLength
        this.#taken += chunk.byteLength
        if (size > this.#limits.maxFileBytes) {
          tooLarge = true
          return
        }
        if (this.#taken > this.#limits.maxTotalBytes) throw this.#tooMuch()
        yield chunk
      }
    }
    const read: { error?: unknown } = {}
    const source = Readable.from(guarded(chunks.call(this), read), { objectMode: false })
    const id = await this.blob(source)
    if (SandboxError.is(read.error, 'file_not_found', 'not_a_directory', 'is_a_directory')) return 'gone'
    if (read.error !== undefined) throw read.error
    return tooLarge ? 'too large' : { mode: executable ? '100755' : '100644', id }
  }

  async blob(content: string | Readable): Promise<string> {
    return (await this.run(['hash-object', '-w', '--no-filters', '--stdin'], { stdin: content })).text
  }

  /** Builds a tree of these files, optionally on top of another tree; `undefined` removes a file. */
  async tree(files: ReadonlyMap<string, TreeEntry | undefined>, on?: string): Promise<string> {
    await this.run(on === undefined ? ['read-tree', '--empty'] : ['read-tree', on])
    const zero = '0'.repeat(40)
    // Removals first: a file may replace a folder.
    const rows = [...files].sort(([, a], [, b]) => Number(a !== undefined) - Number(b !== undefined))
    const stdin = rows
      .map(([path, entry]) => (entry ? `${entry.mode} ${entry.id}\t${path}\0` : `0 ${zero}\t${path}\0`))
      .join('')
    await this.run(['update-index', '-z', '--index-info'], { stdin })
    return (await this.run(['write-tree'])).text
  }

  async entries(tree: string): Promise<Map<string, TreeEntry>> {
    const rows = (await this.run(['ls-tree', '-r', '-z', '--full-tree', tree])).stdout
      .toString('utf8')
      .split('\0')
      .filter(Boolean)
    return new Map(
      rows.map((row) => [
        row.slice(row.indexOf('\t') + 1),
        { mode: row.slice(0, 6), id: row.slice(0, row.indexOf('\t')).split(' ')[2]! },
      ]),
    )
  }

  #tooMuch(): SandboxError {
    return new SandboxError(
      'too_large',
      `The sandbox’s changes are larger than ${this.#limits.maxTotalBytes} bytes.`,
      {
        hint: 'Raise maxTotalBytes, or ignore generated files in the sandbox’s .gitignore.',
        details: { maxTotalBytes: this.#limits.maxTotalBytes },
      },
    )
  }
}

/** A failed read ends the stream and is kept, so that git finishes and the failure can be reported. */
async function* guarded(
  chunks: AsyncIterable<Uint8Array>,
  read: { error?: unknown },
): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks
  } catch (error) {
    read.error = error
  }
}
