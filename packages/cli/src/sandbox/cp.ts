import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import path from 'node:path'
import { pipeline, Readable } from 'node:stream'
import type { Hold } from '@sandkasten/registry'
import { type FileStat, SandboxError, type SandboxHandle } from '@sandkasten/sdk'
import { CopyBudget, copyTree } from '../copy-out.ts'
import { type Copied, copiedText, counting, placeOf, tarSize } from '../copying.ts'
import { packFolder } from '../local-tar.ts'
import { write } from '../output.ts'
import { Meter, showing } from '../progress.ts'
import { print } from '../table.ts'
import { holding, inProject } from './hold.ts'
import { interruptible } from './interrupt.ts'

export interface CpOptions {
  json?: boolean
}

interface Copying {
  handle: SandboxHandle
  meter: Meter
  signal: AbortSignal
}

/** Like `cp -r`: copies into an existing folder, else under the given name. `-` is stdin or stdout. */
export function cp(from: string, to: string, { json }: CpOptions): Promise<number> {
  const [source, target] = [placeOf(from), placeOf(to)]
  if ((source.name === undefined) === (target.name === undefined))
    throw new SandboxError('invalid_argument', 'Exactly one of the two paths must be in a sandbox.', {
      hint: 'Write a path in a sandbox as NAME:path, and a local path with a colon as ./a:b.',
    })
  return holding((source.name ?? target.name)!, { purpose: 'cp' }, async (hold) => {
    const copied = await interruptible((signal) => {
      const copying = { handle: hold.handle, meter: new Meter(), signal }
      return showing(
        () => copying.meter.line(),
        target.name === undefined
          ? download(copying, inside(hold, source.path), to)
          : upload(copying, from, inside(hold, target.path)),
      )
    })
    // With `-`, stdout carries the file itself.
    if (to !== '-') print(json, copied, () => copiedText(copied))
    return 0
  })
}

function inside(hold: Hold, at: string): string {
  return path.posix.normalize(inProject(hold, at)!)
}

async function upload({ handle, meter, signal }: Copying, from: string, to: string): Promise<Copied> {
  const { files } = handle
  if (from === '-') {
    await files.writeFile(to, counted(process.stdin, meter), { signal })
    return { files: 1, bytes: meter.done, skipped: [] }
  }
  const facts = await stat(from).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== 'ENOENT' && cause.code !== 'ENOTDIR') throw cause
    throw new SandboxError('file_not_found', `${from} does not exist on this machine.`, {
      cause,
      hint: 'Check the path.',
    })
  })
  const there = await statOrNothing(handle, to, signal)
  const place = there?.type === 'directory' ? path.posix.join(to, path.basename(path.resolve(from))) : to
  if (!facts.isDirectory()) {
    meter.total = facts.size
    const mode = facts.mode & 0o777
    await files.writeFile(place, counted(createReadStream(from), meter), { mode, signal })
    return { files: 1, bytes: meter.done, skipped: [] }
  }
  if (process.stderr.isTTY) meter.total = await tarSize(from)
  await files.mkdir(place, { recursive: true, signal })
  const tar = packFolder(from)
  // `-o`: all files belong to the sandbox’s user.
  const args = ['-x', '-o', '-f', '-', '-C', place]
  const { exitCode, stderr } = await handle
    .runCommand({ cmd: 'tar', args, stdin: counted(tar.stream, meter), signal })
    .catch((error: unknown) => {
      if (!SandboxError.is(error, 'command_not_found')) throw error
      throw new SandboxError('unsupported', 'The sandbox has no tar, which copies folders.', {
        cause: error,
        hint: 'Install tar in the sandbox, or copy single files.',
      })
    })
  const count = await tar.files()
  if (exitCode !== 0)
    throw new SandboxError(
      'provider_error',
      `tar in the sandbox ended with ${exitCode}: ${lastLine(stderr)}`,
      {
        hint: 'Check that the sandbox’s user may write there, and that the disk has room.',
      },
    )
  return { files: count, bytes: meter.done, skipped: [] }
}

/** A failure of the source reaches the reader. */
function counted(source: Readable, meter: Meter): AsyncIterable<Uint8Array> {
  return pipeline(source, counting(meter), () => {})
}

async function download({ handle, meter, signal }: Copying, from: string, to: string): Promise<Copied> {
  const facts = await statOrNothing(handle, from, signal)
  if (!facts)
    throw new SandboxError('file_not_found', `${from} does not exist in the sandbox.`, {
      hint: 'Check the path.',
    })
  if (to === '-') return toStdout({ handle, meter, signal }, from, facts)
  const here = await stat(to).catch(() => undefined)
  const name = path.posix.basename(path.posix.resolve('/', from)) || 'root'
  const place = here?.isDirectory() ? path.join(to, name) : to
  if (facts.type === 'file') meter.total = facts.size
  const skipped: string[] = []
  const budget = new CopyBudget({
    signal,
    onBytes: (bytes) => meter.add(bytes),
    onSkip: (at) => void skipped.push(at),
  })
  await copyTree(handle.files, { from, to: place, facts }, budget)
  return { files: budget.files, bytes: meter.done, skipped }
}

async function toStdout({ handle, meter, signal }: Copying, from: string, facts: FileStat): Promise<Copied> {
  if (facts.type === 'directory')
    throw new SandboxError('is_a_directory', `${from} is a directory.`, {
      hint: 'Copy it to a folder, or write an archive: sandkasten sandbox exec NAME -- tar -c FOLDER.',
    })
  meter.total = facts.size
  const stream = Readable.fromWeb((await handle.files.readStream(from, { signal })) as never)
  for await (const chunk of stream) {
    await write(process.stdout, chunk)
    meter.add(chunk.length)
  }
  return { files: 1, bytes: meter.done, skipped: [] }
}

async function statOrNothing(
  handle: SandboxHandle,
  at: string,
  signal: AbortSignal,
): Promise<FileStat | undefined> {
  try {
    return await handle.files.stat(at, { signal })
  } catch (error) {
    if (SandboxError.is(error, 'file_not_found')) return undefined
    throw error
  }
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) ?? ''
}
