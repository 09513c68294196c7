import path from 'node:path'
import type { SandboxHandle } from '@sandkasten/sdk'
import type { Context } from '../context.ts'
import type { SpooledFile } from '../spool.ts'
import type { TurnRow } from '../store/index.ts'
import type { Steps } from './steps.ts'

export interface PutOptions {
  readonly handle: SandboxHandle
  readonly directory: string
  readonly steps: Steps
  readonly signal: AbortSignal
}

/** Puts the attachments of a message into the sandbox. Returns their paths there. A repeated call replaces them. */
export async function putAttachments(
  { spool }: Pick<Context, 'spool'>,
  turn: TurnRow,
  { handle, directory, steps, signal }: PutOptions,
): Promise<string[]> {
  const files = JSON.parse(turn.files) as SpooledFile[]
  if (files.length === 0) return []
  steps.begin(files.length === 1 ? 'copying a file' : `copying ${files.length} files`)
  const root = path.posix.join(directory, '.sandkasten')
  const folder = path.posix.join(root, 'attachments', String(turn.seq))
  await handle.files.mkdir(folder, { recursive: true, signal })
  // The folder is no part of the project: git ignores it, and so do diffs.
  await handle.files.writeFile(path.posix.join(root, '.gitignore'), '*\n', { signal })
  const paths: string[] = []
  for (const { file } of files) {
    const target = path.posix.join(folder, file)
    await handle.files.writeFile(target, spool.open(turn.id, file), { signal })
    paths.push(target)
  }
  return paths
}
