import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { SandboxError } from '../../errors.ts'
import { mapLimit } from '../../shared/calls/map-limit.ts'
import type { CallOptions, CommandResult } from '../../spec/index.ts'
import { inBlocks } from '../blocks.ts'
import { type TarItem, tarStream } from '../host/tar.ts'
import type { OnProgress, RecipeSandbox, Skipped } from '../types.ts'
import { probe } from './probe.ts'
import { run, type Tool } from './tools.ts'

export interface Packed {
  sha256: string
  size: number
}

export interface PlaceOptions extends CallOptions {
  tools: ReadonlySet<Tool>
  work: string
  totalBytes: number
  onProgress?: OnProgress | undefined
}

export interface Staged {
  packed: Map<string, Packed>
  missed: Skipped[]
  bytes: number
  commit(): Promise<void>
}

/**
 * Brings files into the sandbox in two steps, so that errors occur before anything is replaced:
 *
 *     archive ──► work/upload.tar ──► work/stage/…  ──► checked ──► commit(): renamed into the project
 *
 * If the sandbox has no `tar`, commit writes each file atomically.
 */
export async function stage(
  sandbox: RecipeSandbox,
  root: string,
  items: readonly TarItem[],
  options: PlaceOptions,
): Promise<Staged> {
  const staged: Staged = { packed: new Map(), missed: [], bytes: 0, commit: async () => {} }
  if (items.length === 0) return staged
  const { tools, work, signal } = options
  if (!tools.has('tar') || !tools.has('mv') || !tools.has('rmdir')) {
    staged.commit = () => writeEach(sandbox, root, items, staged, options)
    return staged
  }
  const archive = `${work}/upload.tar`
  await sandbox.files.writeFile(archive, inBlocks(archiveChunks(items, staged, options)), {
    mode: 0o600,
    signal,
  })
  const folder = `${work}/stage`
  await sandbox.files.mkdir(folder, { recursive: true, signal })
  options.onProgress?.({ phase: 'extract', done: 0, total: staged.packed.size })
  // -o: ignore the owner in the archive. Supported by GNU, BSD and busybox.
  const result = await run(sandbox, { cmd: 'tar', args: ['-xof', archive, '-C', folder], cwd: root, signal })
  if (result.exitCode !== 0) throw await extractionError(sandbox, root, result, options)
  await sandbox.files.rm(archive, { force: true, signal })
  options.onProgress?.({ phase: 'extract', done: staged.packed.size, total: staged.packed.size })
  await verify(sandbox, folder, items, staged, options)
  // Not cancellable: an interrupted series of renames would mix the old project and the new one.
  staged.commit = async () => {
    const moved = await run(sandbox, { cmd: 'sh', args: ['-c', mergeScript, 'sh', folder, root], cwd: root })
    if (moved.exitCode !== 0) throw await extractionError(sandbox, root, moved, options)
  }
  return staged
}

async function* archiveChunks(
  items: readonly TarItem[],
  staged: Staged,
  { onProgress, totalBytes }: PlaceOptions,
): AsyncGenerator<Uint8Array> {
  const stream = tarStream(items, {
    onPacked: (path, facts) => {
      staged.packed.set(path, facts)
      onProgress?.({ phase: 'send', done: staged.bytes, total: totalBytes, path })
    },
    onMissed: (path, reason) => staged.missed.push({ path, reason }),
  })
  for await (const chunk of stream) {
    staged.bytes += chunk.byteLength
    yield chunk
  }
}

async function verify(
  sandbox: RecipeSandbox,
  folder: string,
  items: readonly TarItem[],
  staged: Staged,
  options: PlaceOptions,
): Promise<void> {
  const sent = items.filter((item) => item.type === 'symlink' || staged.packed.has(item.path))
  options.onProgress?.({ phase: 'verify', done: 0, total: sent.length })
  const there = await probe(
    sandbox,
    folder,
    sent.map((item) => item.path),
    options,
  )
  const wrong = sent.filter((item) => {
    const entry = there.get(item.path)
    if (item.type === 'symlink') return entry?.type !== 'symlink' || entry.target !== item.target
    return entry?.type !== 'file' || entry.sha256 !== staged.packed.get(item.path)?.sha256
  })
  options.onProgress?.({ phase: 'verify', done: sent.length - wrong.length, total: sent.length })
  if (wrong.length === 0) return
  throw new SandboxError(
    'provider_error',
    `${wrong.length} of ${sent.length} files arrived damaged, the first is ${wrong[0]!.path}.`,
    {
      hint: 'Upload again. If it happens again, check the sandbox’s disk and its tar program.',
      details: { paths: wrong.slice(0, 20).map((item) => item.path) },
    },
  )
}

// Merges a tree into another: renames a new folder at once, and each file over the one that it replaces.
const mergeScript = `
merge() (
  for from in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    if [ ! -e "$from" ] && [ ! -L "$from" ]; then continue; fi
    to="$2/\${from##*/}"
    if [ -d "$from" ] && [ ! -L "$from" ] && [ -d "$to" ] && [ ! -L "$to" ]; then
      merge "$from" "$to" || exit 1
      continue
    fi
    if [ -L "$to" ]; then rm -f -- "$to" || exit 1
    elif [ -d "$to" ]; then rmdir -- "$to" || exit 1
    fi
    mv -f -- "$from" "$to" || exit 1
  done
)
merge "$1" "$2"`

async function writeEach(
  sandbox: RecipeSandbox,
  root: string,
  items: readonly TarItem[],
  staged: Staged,
  options: PlaceOptions,
): Promise<void> {
  const { signal, onProgress, totalBytes } = options
  const { files } = sandbox
  for (const item of items)
    if (item.type === 'directory') await files.mkdir(`${root}/${item.path}`, { recursive: true, signal })
  await mapLimit(
    items.filter((item) => item.type !== 'directory'),
    4,
    async (item) => {
      const path = `${root}/${item.path}`
      if (item.type === 'symlink') {
        await files.rm(path, { force: true, signal })
        await files.mkdir(path.slice(0, path.lastIndexOf('/')), { recursive: true, signal })
        await files.symlink(item.target!, path, { signal })
        return
      }
      const hash = createHash('sha256')
      let size = 0
      const content = async function* (): AsyncGenerator<Uint8Array> {
        for await (const chunk of createReadStream(item.source!, {
          highWaterMark: 256 * 1024,
        }) as AsyncIterable<Buffer>) {
          hash.update(chunk)
          size += chunk.byteLength
          yield chunk
        }
      }
      try {
        await files.writeFile(path, content(), { mode: item.mode, signal })
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
        staged.missed.push({ path: item.path, reason: 'it disappeared while the project was read' })
        return
      }
      const arrived = await files.lstat(path, { signal })
      if (arrived.size !== size) {
        throw new SandboxError(
          'provider_error',
          `Of ${item.path}, ${arrived.size} of ${size} bytes arrived.`,
          { hint: 'Upload again.' },
        )
      }
      staged.packed.set(item.path, { sha256: hash.digest('hex'), size })
      staged.bytes += size
      onProgress?.({ phase: 'send', done: staged.bytes, total: totalBytes, path: item.path })
    },
  )
}

async function extractionError(
  sandbox: RecipeSandbox,
  root: string,
  result: CommandResult,
  { tools, totalBytes }: PlaceOptions,
): Promise<SandboxError> {
  const details = { exitCode: result.exitCode, stderr: result.stderr.trim().slice(-500) }
  const free = tools.has('df') ? await freeBytes(sandbox, root) : undefined
  if (free !== undefined && free < totalBytes) {
    return new SandboxError(
      'disk_full',
      `The sandbox’s disk under ${root} has ${free} bytes left; the project needs ${totalBytes}.`,
      {
        hint: 'Free space in the sandbox, choose a remotePath on a larger disk, or send less history with git: { depth: 1 }.',
        details: { ...details, freeBytes: free },
      },
    )
  }
  return new SandboxError(
    'provider_error',
    `The project could not be unpacked in ${root} (exit code ${result.exitCode}): ${details.stderr}`,
    {
      hint: 'Choose a remotePath that the sandbox’s user can write to; details.stderr has the output of tar.',
      details,
    },
  )
}

/** Queries the free space instead of parsing tar's messages. */
async function freeBytes(sandbox: RecipeSandbox, root: string): Promise<number | undefined> {
  const result = await run(sandbox, { cmd: 'df', args: ['-Pk', '--', root], cwd: root }).catch(
    () => undefined,
  )
  const blocks = /\s(\d+)\s+\d+%/.exec(result?.stdout ?? '')?.[1]
  return blocks === undefined ? undefined : Number(blocks) * 1024
}
