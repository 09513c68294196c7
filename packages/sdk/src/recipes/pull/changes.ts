import { throwIfAborted } from '../../shared/calls/abort.ts'
import { leadsOutside } from '../paths.ts'
import { type LocalEntry, matchesRemote } from '../plan.ts'
import type { Manifest, ManifestEntry } from '../remote/manifest.ts'
import type { RemoteEntry } from '../remote/probe.ts'
import type { Conflict, PulledFile, Skipped } from '../types.ts'
import { type LocalState, localState } from './local-state.ts'

export interface Changes {
  /** Changed only in the sandbox. */
  clean: PulledFile[]
  conflicts: Array<Conflict & PulledFile>
  same: PulledFile[]
  skipped: Skipped[]
}

interface FindOptions {
  projectDir: string
  manifest: Manifest
  remote: ReadonlyMap<string, RemoteEntry>
  signal?: AbortSignal | undefined
}

/** The sandbox's changes since the upload, classified by the local changes. */
export async function findChanges({ projectDir, manifest, remote, signal }: FindOptions): Promise<Changes> {
  const changes: Changes = { clean: [], conflicts: [], same: [], skipped: [] }
  for (const [path, there] of remote) {
    throwIfAborted(signal, 'The pull')
    const before = manifest.files.get(path)
    if (before ? matchesRemote(before, there) : there.type === 'missing' || there.type === 'directory')
      continue
    const refused = refusal(path, there)
    if (refused !== undefined) {
      changes.skipped.push({ path, reason: refused })
      continue
    }
    const gone = there.type !== 'file' && there.type !== 'symlink'
    if (gone && !before) continue
    const file: PulledFile = { path, change: gone ? 'deleted' : before ? 'modified' : 'added' }
    const here = await localState(projectDir, path)
    if (isAsUploaded(here, before)) changes.clean.push(file)
    else if (gone ? here.type === 'missing' : isEntry(here) && matchesRemote(here, there))
      changes.same.push(file)
    else changes.conflicts.push({ ...file, ...conflict(here, there, gone) })
  }
  return changes
}

function refusal(path: string, there: RemoteEntry): string | undefined {
  if (there.type === 'other') return 'it is neither a file nor a symbolic link'
  if (there.type === 'symlink' && leadsOutside(path, there.target))
    return `the symbolic link points outside the project (${there.target})`
  return undefined
}

function isAsUploaded(here: LocalState, before: ManifestEntry | undefined): boolean {
  if (!before) return here.type === 'missing'
  if (here.type === 'symlink') return before.type === 'symlink' && before.target === here.target
  return (
    here.type === 'file' &&
    before.type === 'file' &&
    before.sha256 === here.sha256 &&
    (before.mode & 0o100) === (here.mode & 0o100)
  )
}

function conflict(
  here: LocalState,
  there: RemoteEntry,
  gone: boolean,
): Pick<Conflict, 'reason' | 'localSha256' | 'sandboxSha256'> {
  const reason = gone
    ? 'removed in the sandbox, and changed here'
    : here.type === 'missing'
      ? 'changed in the sandbox, and removed here'
      : 'changed in the sandbox and here'
  return {
    reason,
    localSha256: here.type === 'file' ? here.sha256 : undefined,
    sandboxSha256: there.type === 'file' ? there.sha256 : undefined,
  }
}

function isEntry(state: LocalState): state is LocalEntry {
  return state.type === 'file' || state.type === 'symlink'
}
