import { mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stateFolder } from '../paths.ts'
import type { GitDepth, Skipped } from '../types.ts'
import { git } from './git.ts'
import { copyConfig } from './git-config.ts'
import type { LocalRepo } from './scan.ts'
import type { TarItem } from './tar.ts'

export interface RepoState {
  sent: boolean
  /** The commit; undefined before the first commit. */
  head?: string
  /** The branch of HEAD (`refs/heads/main`); undefined if detached. */
  ref?: string
  refs: Record<string, string>
}

interface GitCall {
  signal?: AbortSignal | undefined
}

export async function repoState(repo: LocalRepo, sent: boolean, { signal }: GitCall): Promise<RepoState> {
  const call = { cwd: repo.dir, signal }
  const head = await git(['rev-parse', '--verify', '--quiet', 'HEAD^{commit}'], { ...call, accept: [0, 1] })
  const ref = await git(['symbolic-ref', '--quiet', 'HEAD'], { ...call, accept: [0, 1] })
  const rows = await git(
    ['for-each-ref', '--format=%(objectname) %(refname)', 'refs/heads', 'refs/tags'],
    call,
  )
  const refs: Record<string, string> = {}
  for (const row of rows.text.split('\n').filter(Boolean))
    refs[row.slice(row.indexOf(' ') + 1)] = row.slice(0, row.indexOf(' '))
  return {
    sent,
    head: head.code === 0 ? head.text : undefined,
    ref: ref.code === 0 ? ref.text : undefined,
    refs,
  }
}

/**
 * Builds a git folder with the branches and tags at the requested depth, HEAD, its index, and the remotes without
 * passwords. Uses a fetch, so that nothing else of the original is included: no hooks, alternates, local paths, stash
 * or other configuration.
 */
export async function buildGitData(
  repo: LocalRepo,
  state: RepoState,
  gitDir: string,
  depth: Exclude<GitDepth, 'none'>,
  { signal }: GitCall,
): Promise<{ items: TarItem[]; skipped: Skipped[]; bytes: number }> {
  const there = { cwd: repo.dir, signal }
  const here = (args: string[], stdin?: string) => git([`--git-dir=${gitDir}`, ...args], { stdin, signal })
  const format = (await git(['rev-parse', '--show-object-format'], there)).text
  await git(['init', '--quiet', '--bare', '--template=', `--object-format=${format}`, '--', gitDir], {
    signal,
  })

  const wanted = await refspecs(state, there)
  if (wanted.length > 0) {
    const limit = depth === 'full' ? [] : [`--depth=${depth.depth}`]
    // One pack of any size; shallow sources (CI checkouts) stay shallow instead of being rejected.
    const how = [
      '-c',
      'fetch.unpackLimit=1',
      '-c',
      'protocol.file.allow=always',
      'fetch',
      '--quiet',
      '--no-tags',
      '--update-shallow',
    ]
    await here([
      ...how,
      '--no-write-fetch-head',
      '--no-recurse-submodules',
      ...limit,
      '--',
      repo.dir,
      ...wanted,
    ])
  }
  if (state.ref !== undefined) await here(['symbolic-ref', 'HEAD', state.ref])
  else if (state.head !== undefined) await here(['update-ref', '--no-deref', 'HEAD', state.head])
  if (wanted.includes(detachedHead)) await here(['update-ref', '-d', 'refs/sandkasten/head'])
  await here(['pack-refs', '--all'])
  if (state.head !== undefined) {
    await here(['read-tree', state.head])
    if (repo.sparse.length > 0) {
      // With a missing work tree, git touches only the index.
      const bits = [
        '-c',
        'core.bare=false',
        `--work-tree=${gitDir}`,
        'update-index',
        '-z',
        '--skip-worktree',
        '--stdin',
      ]
      await here(bits, repo.sparse.map((name) => `${name}\0`).join(''))
    }
  }
  const skipped = await copyConfig(repo, gitDir, { signal })
  await mkdir(join(gitDir, 'info'), { recursive: true })
  await writeFile(join(gitDir, 'info', 'exclude'), `/${stateFolder}/\n`)
  await rm(join(gitDir, 'FETCH_HEAD'), { force: true })
  const inside = repo.path === '' ? '.git' : `${repo.path}/.git`
  const items = await itemsOf(gitDir, inside)
  const sizes = await Promise.all(
    items.map(async ({ source }) => (source === undefined ? 0 : (await stat(source)).size)),
  )
  return { items, skipped, bytes: sizes.reduce((sum, size) => sum + size, 0) }
}

const detachedHead = '+HEAD:refs/sandkasten/head'

/** Branches, tags, the branches' upstreams, and HEAD if it is on none of them. */
async function refspecs(
  state: RepoState,
  there: { cwd: string; signal: AbortSignal | undefined },
): Promise<string[]> {
  const upstreams = await git(['for-each-ref', '--format=%(upstream)', 'refs/heads'], there)
  const names = new Set(upstreams.text.split('\n').filter((name) => name.startsWith('refs/remotes/')))
  const existing =
    names.size === 0 ? '' : (await git(['for-each-ref', '--format=%(refname)', ...names], there)).text
  return [
    ...(Object.keys(state.refs).some((name) => name.startsWith('refs/heads/'))
      ? ['+refs/heads/*:refs/heads/*']
      : []),
    ...(Object.keys(state.refs).some((name) => name.startsWith('refs/tags/'))
      ? ['+refs/tags/*:refs/tags/*']
      : []),
    ...existing
      .split('\n')
      .filter((name) => names.has(name))
      .map((name) => `+${name}:${name}`),
    ...(state.ref === undefined && state.head !== undefined ? [detachedHead] : []),
  ]
}

async function itemsOf(folder: string, path: string): Promise<TarItem[]> {
  const items: TarItem[] = [{ type: 'directory', path, mode: 0o755 }]
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const source = join(folder, entry.name)
    const inside = `${path}/${entry.name}`
    if (entry.isDirectory()) items.push(...(await itemsOf(source, inside)))
    else
      items.push({
        type: 'file',
        path: inside,
        source,
        mode: entry.name.startsWith('pack-') ? 0o444 : 0o644,
        mtimeMs: Date.now(),
      })
  }
  return items
}
