import type { ManifestEntry } from './remote/manifest.ts'
import type { RemoteEntry } from './remote/probe.ts'
import type { Conflict } from './types.ts'

export type LocalEntry = { type: 'file'; mode: number; sha256: string } | { type: 'symlink'; target: string }

export interface UploadPlan {
  send: string[]
  remove: string[]
  /** Equal on both sides, or changed only in the sandbox. */
  unchanged: string[]
  /** Those of them that are now equal on both sides. */
  equal: string[]
  conflicts: Conflict[]
}

/**
 * Compares three versions of every file: local, uploaded, and in the sandbox. Only local changes are sent or removed,
 * and only if the sandbox has the uploaded version or already the new one.
 */
export function planUpload(
  local: ReadonlyMap<string, LocalEntry>,
  base: ReadonlyMap<string, ManifestEntry>,
  remote: ReadonlyMap<string, RemoteEntry>,
  force: boolean,
): UploadPlan {
  const plan: UploadPlan = { send: [], remove: [], unchanged: [], equal: [], conflicts: [] }
  for (const [path, here] of local) {
    const before = base.get(path)
    const there = remote.get(path) ?? { type: 'missing' as const }
    // Mode bits that the sandbox does not report (0600 or 0644) are sent if they changed locally.
    const onlyMode =
      before?.type === 'file' &&
      here.type === 'file' &&
      before.sha256 === here.sha256 &&
      before.mode !== here.mode
    if (matchesRemote(here, there) && !onlyMode) {
      plan.unchanged.push(path)
      plan.equal.push(path)
    } else if (force || (before ? matchesRemote(before, there) : there.type === 'missing')) {
      if (there.type === 'blocked' || there.type === 'directory')
        plan.conflicts.push(conflictOf(path, here, there))
      else plan.send.push(path)
    } else if (before && sameHere(here, before)) {
      plan.unchanged.push(path)
    } else {
      plan.conflicts.push(conflictOf(path, here, there))
    }
  }
  for (const [path, before] of base) {
    if (local.has(path)) continue
    const there = remote.get(path) ?? { type: 'missing' as const }
    if (there.type === 'missing') continue
    if (matchesRemote(before, there) || (force && (there.type === 'file' || there.type === 'symlink')))
      plan.remove.push(path)
    else plan.conflicts.push(conflictOf(path, undefined, there))
  }
  return plan
}

/** Compares only the executable bit of the mode: the rest depends on the sandbox's umask and user. */
export function matchesRemote(entry: LocalEntry | ManifestEntry, there: RemoteEntry): boolean {
  if (entry.type === 'symlink') return there.type === 'symlink' && there.target === entry.target
  if (there.type !== 'file' || there.sha256 !== entry.sha256) return false
  return there.executable === undefined || there.executable === ((entry.mode & 0o100) !== 0)
}

export function sameHere(here: LocalEntry, before: ManifestEntry): boolean {
  if (here.type === 'symlink') return before.type === 'symlink' && before.target === here.target
  return before.type === 'file' && before.sha256 === here.sha256 && before.mode === here.mode
}

function conflictOf(path: string, here: LocalEntry | undefined, there: RemoteEntry): Conflict {
  return {
    path,
    reason: reasonOf(here, there),
    localSha256: here?.type === 'file' ? here.sha256 : undefined,
    sandboxSha256: there.type === 'file' ? there.sha256 : undefined,
  }
}

function reasonOf(here: LocalEntry | undefined, there: RemoteEntry): string {
  if (there.type === 'blocked') return `in the sandbox ${there.by} is not a folder`
  if (there.type === 'directory') return 'in the sandbox there is a folder in its place'
  if (there.type === 'missing') return 'changed here, and removed in the sandbox'
  return here === undefined ? 'removed here, and changed in the sandbox' : 'changed here and in the sandbox'
}
