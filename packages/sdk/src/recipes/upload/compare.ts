import { throwIfAborted } from '../../shared/calls/abort.ts'
import { mapLimit } from '../../shared/calls/map-limit.ts'
import { hashLocal } from '../host/hash.ts'
import type { LocalFile } from '../host/scan.ts'
import { stateFolder } from '../paths.ts'
import { type LocalEntry, matchesRemote, planUpload, type UploadPlan } from '../plan.ts'
import type { Manifest, ManifestEntry } from '../remote/manifest.ts'
import { probe, type RemoteEntry } from '../remote/probe.ts'
import type { Tool } from '../remote/tools.ts'
import type { UploadJob } from './job.ts'

/** Decides what to send, remove and keep, with hashes of the local files if they were needed. */
export async function compare(
  job: UploadJob,
  manifest: Manifest | undefined,
  tools: ReadonlySet<Tool>,
): Promise<{ plan: UploadPlan; local: Map<string, LocalEntry>; first: boolean }> {
  const { sandbox, root, scan, opts } = job
  const { signal } = opts
  const present = await sandbox.files.readdir(root, { signal })
  if (!manifest && present.every((name) => name === stateFolder)) {
    // An empty folder: everything is sent, and hashed during the upload.
    return {
      plan: { send: [...scan.files.keys()], remove: [], unchanged: [], equal: [], conflicts: [] },
      local: new Map(),
      first: true,
    }
  }
  let done = 0
  const entries = await mapLimit([...scan.files.values()], 8, async (file) => {
    throwIfAborted(signal, 'The upload')
    const entry = await localEntry(file, signal)
    done += 1
    opts.onProgress?.({ phase: 'scan', done, total: scan.files.size, path: file.path })
    return [file.path, entry] as const
  })
  const local = new Map(entries.filter((row): row is [string, LocalEntry] => row[1] !== undefined))
  const base = manifest?.files ?? new Map<string, ManifestEntry>()
  const remote = await probe(sandbox, root, [...new Set([...local.keys(), ...base.keys()])], {
    tools,
    signal,
  })
  await foreseeRemovals(job, local, base, remote)
  return { plan: planUpload(local, base, remote, opts.force ?? false), local, first: false }
}

/** A file in place of a folder, or the reverse, does not block if it is about to be removed. */
async function foreseeRemovals(
  { sandbox, root, opts }: UploadJob,
  local: ReadonlyMap<string, LocalEntry>,
  base: ReadonlyMap<string, ManifestEntry>,
  remote: Map<string, RemoteEntry>,
): Promise<void> {
  const removable = (path: string): boolean => {
    const [before, there] = [base.get(path), remote.get(path)]
    return !local.has(path) && before !== undefined && there !== undefined && matchesRemote(before, there)
  }
  for (const path of local.keys()) {
    const there = remote.get(path)
    if (there?.type === 'blocked' && removable(there.by)) remote.set(path, { type: 'missing' })
    if (there?.type !== 'directory') continue
    const inside = await sandbox.files.list(`${root}/${path}`, { recursive: true, signal: opts.signal })
    if (inside.every((entry) => entry.type === 'directory' || removable(`${path}/${entry.path}`)))
      remote.set(path, { type: 'missing' })
  }
}

async function localEntry(file: LocalFile, signal: AbortSignal | undefined): Promise<LocalEntry | undefined> {
  if (file.type === 'symlink') return { type: 'symlink', target: file.target! }
  const sha256 = await hashLocal(file, signal)
  return sha256 === undefined ? undefined : { type: 'file', mode: file.mode, sha256 }
}
