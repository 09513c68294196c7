import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { CallOptions } from '../../spec/index.ts'
import { git } from '../host/git.ts'
import type { RepoState } from '../host/git-data.ts'
import type { LocalRepo } from '../host/scan.ts'
import type { Conflict, RecipeSandbox } from '../types.ts'
import { isObjectId, isRefName } from './manifest.ts'
import { remoteGit } from './tools.ts'

interface SyncOptions extends CallOptions {
  temp: string
  work: string
}

export interface SyncResult {
  state: RepoState
  conflicts: Conflict[]
  bytes: number
}

/** Branches, tags and HEAD of a repository in the sandbox; undefined if git finds none. */
export async function remoteState(
  sandbox: RecipeSandbox,
  dir: string,
  { signal }: CallOptions,
): Promise<RepoState | undefined> {
  const rows = await remoteGit(
    sandbox,
    dir,
    ['for-each-ref', '--format=%(objectname) %(refname)', 'refs/heads', 'refs/tags'],
    { signal },
  )
  if (rows.exitCode !== 0) return undefined
  const state: RepoState = { sent: true, refs: {} }
  for (const row of rows.stdout.split('\n')) {
    const [id, ...name] = row.split(' ')
    if (isObjectId(id) && isRefName(name.join(' '))) state.refs[name.join(' ')] = id
  }
  const ref = (await remoteGit(sandbox, dir, ['symbolic-ref', '--quiet', 'HEAD'], { signal })).stdout.trim()
  const head = (
    await remoteGit(sandbox, dir, ['rev-parse', '--verify', '--quiet', 'HEAD^{commit}'], { signal })
  ).stdout.trim()
  return { ...state, ref: isRefName(ref) ? ref : undefined, head: isObjectId(head) ? head : undefined }
}

/**
 * Updates the history in the sandbox: sends new commits as a bundle, and moves each branch that changed locally and
 * is unchanged in the sandbox. A branch that the sandbox moved stays, and is reported.
 */
export async function syncHistory(
  sandbox: RecipeSandbox,
  root: string,
  repo: LocalRepo,
  now: RepoState,
  before: RepoState,
  options: SyncOptions,
): Promise<SyncResult> {
  const { signal } = options
  const dir = repo.path === '' ? root : `${root}/${repo.path}`
  const named = (path: string) => (repo.path === '' ? path : `${repo.path}/${path}`)
  const result: SyncResult = { state: { ...before, refs: { ...before.refs } }, conflicts: [], bytes: 0 }
  const theirs = await remoteState(sandbox, dir, { signal })
  if (!theirs) {
    result.conflicts.push({
      path: named('.git'),
      reason: 'git in the sandbox finds no repository there; its history was not updated',
    })
    return result
  }
  const { lines, moved } = refUpdates(now, before, theirs, result, named)
  const headMoves = now.ref !== before.ref || (now.ref === undefined && now.head !== before.head)
  const headFree = theirs.ref === before.ref && (theirs.ref !== undefined || theirs.head === before.head)
  if (lines.length > 0 || (headMoves && headFree)) {
    const wanted = [
      ...Object.keys(moved),
      ...(now.ref === undefined && now.head !== undefined ? ['HEAD'] : []),
    ]
    const refused = await sendBundle(sandbox, dir, repo, wanted, theirs, result, options)
    const update =
      refused ??
      (lines.length === 0
        ? undefined
        : await attempt(sandbox, dir, ['update-ref', '--stdin'], lines.join(''), signal))
    if (update !== undefined) {
      result.conflicts.push({ path: named('.git'), reason: `the history could not be updated: ${update}` })
      return result
    }
    for (const [name, id] of Object.entries(moved)) {
      if (id === undefined) delete result.state.refs[name]
      else result.state.refs[name] = id
    }
  }
  // Files were compared with the local commit, whatever HEAD the sandbox is on.
  result.state.head = now.head
  if (headMoves && theirs.ref !== now.ref && !headFree) {
    result.conflicts.push({ path: named('HEAD'), reason: 'changed here and in the sandbox' })
  } else if (headMoves) {
    const target =
      now.ref !== undefined
        ? ['symbolic-ref', 'HEAD', now.ref]
        : ['update-ref', '--no-deref', 'HEAD', now.head ?? '']
    await attempt(sandbox, dir, target, undefined, signal)
    result.state.ref = now.ref
  }
  await moveIndex(sandbox, dir, theirs.head, result, named, signal)
  return result
}

/** The input for `update-ref --stdin`. Each line has the old value, so that a concurrent commit is never lost. */
function refUpdates(
  now: RepoState,
  before: RepoState,
  theirs: RepoState,
  result: SyncResult,
  named: (path: string) => string,
) {
  const lines: string[] = []
  const moved: Record<string, string | undefined> = {}
  for (const name of new Set([...Object.keys(now.refs), ...Object.keys(before.refs)])) {
    const [here, base, there] = [now.refs[name], before.refs[name], theirs.refs[name]]
    if (here === base || !isRefName(name)) continue
    if (there === here) {
      if (here === undefined) delete result.state.refs[name]
      else result.state.refs[name] = here
    } else if (there !== base) {
      result.conflicts.push({ path: named(name), reason: 'the sandbox has commits of its own there' })
    } else if (here === undefined && theirs.ref === name && now.ref === before.ref) {
      result.conflicts.push({ path: named(name), reason: 'deleted here, and checked out in the sandbox' })
    } else {
      lines.push(
        here === undefined
          ? `delete ${name} ${base}\n`
          : base === undefined
            ? `create ${name} ${here}\n`
            : `update ${name} ${here} ${base}\n`,
      )
      moved[name] = here
    }
  }
  return { lines, moved }
}

/** Returns an error message, if any. */
async function sendBundle(
  sandbox: RecipeSandbox,
  dir: string,
  repo: LocalRepo,
  wanted: readonly string[],
  theirs: RepoState,
  result: SyncResult,
  { temp, work, signal }: SyncOptions,
): Promise<string | undefined> {
  const revisions = (
    await known(repo, [...Object.values(theirs.refs), ...(theirs.head ? [theirs.head] : [])], signal)
  ).map((id) => `^${id}\n`)
  const present = (
    await git(['for-each-ref', '--format=%(refname)', 'refs/heads', 'refs/tags'], { cwd: repo.dir, signal })
  ).text.split('\n')
  const names = wanted.filter((name) => name === 'HEAD' || present.includes(name))
  if (names.length === 0) return undefined
  const file = join(temp, `history-${result.bytes}-${repo.path.replaceAll(/\W/g, '-')}.bundle`)
  const stdin = [...names.map((name) => `${name}\n`), ...revisions].join('')
  // 128: the sandbox has everything, and git creates no empty bundle.
  const made = await git(['bundle', 'create', '--quiet', file, '--stdin'], {
    cwd: repo.dir,
    stdin,
    accept: [0, 128],
    signal,
  })
  if (made.code !== 0) return undefined
  const remote = `${work}/history.bundle`
  await sandbox.files.writeFile(remote, createReadStream(file), { mode: 0o600, signal })
  result.bytes += (await stat(file)).size
  const refused = await attempt(sandbox, dir, ['bundle', 'unbundle', remote], undefined, signal)
  await sandbox.files.rm(remote, { force: true, signal })
  return refused
}

async function known(
  repo: LocalRepo,
  ids: readonly string[],
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const stdin = [...new Set(ids)].map((id) => `${id}\n`).join('')
  const rows = await git(['cat-file', '--batch-check=%(objectname) %(objecttype)'], {
    cwd: repo.dir,
    stdin,
    signal,
  })
  return rows.text.split('\n').flatMap((row) => /^([0-9a-f]+) (?:commit|tag)$/.exec(row)?.[1] ?? [])
}

/** Moves the index to HEAD; changes that the sandbox has staged stay staged. */
async function moveIndex(
  sandbox: RecipeSandbox,
  dir: string,
  oldHead: string | undefined,
  result: SyncResult,
  named: (path: string) => string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const answer = await remoteGit(sandbox, dir, ['rev-parse', '--verify', '--quiet', 'HEAD^{commit}'], {
    signal,
  })
  const newHead = answer.stdout.trim()
  if (!isObjectId(newHead) || newHead === oldHead) return
  const args = oldHead === undefined ? ['read-tree', newHead] : ['read-tree', '-m', '-i', oldHead, newHead]
  const refused = await attempt(sandbox, dir, args, undefined, signal)
  if (refused !== undefined)
    result.conflicts.push({
      path: named('index'),
      reason: `changes staged in the sandbox are in the way: ${refused}`,
    })
  await remoteGit(sandbox, dir, ['update-index', '-q', '--refresh'], { signal })
}

async function attempt(
  sandbox: RecipeSandbox,
  dir: string,
  args: string[],
  stdin: string | undefined,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const result = await remoteGit(sandbox, dir, args, { stdin, signal })
  return result.exitCode === 0
    ? undefined
    : result.stderr.trim().slice(-300) || `git exited with code ${result.exitCode}`
}
