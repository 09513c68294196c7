import { createReadStream } from 'node:fs'
import { appendFile, mkdir, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { throwIfAborted } from '../../shared/calls/abort.ts'
import type { PulledFile, Skipped } from '../types.ts'
import type { PullJob } from './job.ts'
import type { TreeEntry } from './objects.ts'

const maxPatchBytes = 256 * 1024 * 1024

/** The changes as a patch for `git apply`, against the current local files. */
export async function makePatch(
  job: PullJob,
  changes: readonly PulledFile[],
): Promise<{ patch: string; files: PulledFile[]; skipped: Skipped[] }> {
  const { store, projectDir, manifest, remote, opts } = job
  const [old, fresh] = [new Map<string, TreeEntry>(), new Map<string, TreeEntry>()]
  const files: PulledFile[] = []
  const skipped: Skipped[] = []
  await store.init()
  for (const [index, file] of changes.entries()) {
    throwIfAborted(opts.signal, 'The pull')
    opts.onProgress?.({ phase: 'send', done: index, total: changes.length, path: file.path })
    const before = manifest.files.get(file.path)
    if (file.change !== 'deleted') {
      const mode = before?.type === 'file' ? before.mode : undefined
      const entry = await store.take(job.sandbox, `${job.root}/${file.path}`, remote.get(file.path)!, mode)
      if (typeof entry === 'string') {
        skipped.push({
          path: file.path,
          reason:
            entry === 'gone'
              ? 'it disappeared while it was read'
              : `it is larger than ${job.limits.maxFileBytes} bytes`,
        })
        continue
      }
      fresh.set(file.path, entry)
    }
    const source = join(projectDir, file.path)
    if (before?.type === 'symlink')
      old.set(file.path, { mode: '120000', id: await store.blob(await readlink(source)) })
    else if (before)
      old.set(file.path, {
        mode: before.mode & 0o100 ? '100755' : '100644',
        id: await store.blob(createReadStream(source)),
      })
    files.push(file)
  }
  const [from, to] = [await store.tree(old), await store.tree(fresh)]
  return { patch: await diff(job, from, to), files, skipped }
}

async function diff({ store }: PullJob, from: string, to: string): Promise<string> {
  const args = [
    'diff',
    '--binary',
    '--full-index',
    '--no-renames',
    '--no-ext-diff',
    '--no-textconv',
    '--no-color',
    '--src-prefix=a/',
    '--dst-prefix=b/',
    from,
    to,
  ]
  const run = async () => (await store.run(args, { maxOutputBytes: maxPatchBytes })).stdout
  const bytes = await run()
  const text = bytes.toString('utf8')
  if (Buffer.from(text).equals(bytes)) return text
  // Text that is not UTF-8 would be damaged in a string; a binary patch is ASCII.
  await mkdir(join(store.gitDir, 'info'), { recursive: true })
  await appendFile(join(store.gitDir, 'info', 'attributes'), '* -diff\n')
  return (await run()).toString('latin1')
}
