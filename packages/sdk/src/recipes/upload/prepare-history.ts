import { join } from 'node:path'
import { buildGitData, type RepoState, repoState } from '../host/git-data.ts'
import type { LocalRepo } from '../host/scan.ts'
import type { TarItem } from '../host/tar.ts'
import type { Manifest } from '../remote/manifest.ts'
import type { Tool } from '../remote/tools.ts'
import type { Conflict, Skipped } from '../types.ts'
import type { UploadJob } from './job.ts'

export interface History {
  items: TarItem[]
  itemBytes: number
  states: Map<string, RepoState>
  sync: Array<{ repo: LocalRepo; now: RepoState; before: RepoState }>
  skipped: Skipped[]
  conflicts: Conflict[]
  head?: string | undefined
}

/** For each repository: a git folder to send, an update of the one sent earlier, or nothing. */
export async function prepareHistory(
  { sandbox, root, temp, depth, scan, opts }: UploadJob,
  manifest: Manifest | undefined,
  tools: ReadonlySet<Tool>,
): Promise<History> {
  const { signal } = opts
  const history: History = {
    items: [],
    itemBytes: 0,
    states: new Map(),
    sync: [],
    skipped: [],
    conflicts: [],
  }
  for (const [index, repo] of scan.repos.entries()) {
    opts.onProgress?.({ phase: 'pack', done: index, total: scan.repos.length, path: repo.path })
    const gitPath = repo.path === '' ? '.git' : `${repo.path}/.git`
    const before = manifest?.repos.get(repo.path)
    const now = await repoState(repo, depth !== 'none', { signal })
    if (repo.path === '') history.head = now.head
    const there = await sandbox.files.exists(`${root}/${gitPath}`, { signal })
    if (depth === 'none') {
      history.states.set(repo.path, before?.sent && there ? { ...before, head: now.head } : now)
    } else if (!there) {
      const { items, skipped, bytes } = await buildGitData(
        repo,
        now,
        join(temp, `repo-${index}.git`),
        depth,
        { signal },
      )
      history.items.push(...items)
      history.itemBytes += bytes
      history.skipped.push(...skipped)
      history.states.set(repo.path, now)
    } else if (!before?.sent) {
      history.conflicts.push({
        path: gitPath,
        reason: 'the sandbox has a repository of its own there; its history was not changed',
      })
      history.states.set(repo.path, { ...now, sent: false })
    } else {
      history.states.set(repo.path, { ...before, head: now.head })
      if (tools.has('git')) history.sync.push({ repo, now, before })
      else
        history.skipped.push({
          path: gitPath,
          reason: 'the sandbox has no git program to update its history with',
        })
    }
  }
  for (const path of manifest?.repos.keys() ?? []) {
    if (path === '' || scan.repos.some((repo) => repo.path === path)) continue
    history.skipped.push({
      path: `${path}/.git`,
      reason: 'the repository no longer exists locally; its history was kept in the sandbox',
    })
  }
  return history
}
