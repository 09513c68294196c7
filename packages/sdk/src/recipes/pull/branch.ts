import { copyFile, mkdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { SandboxError } from '../../errors.ts'
import { throwIfAborted } from '../../shared/calls/abort.ts'
import { invalid } from '../checks.ts'
import { git } from '../host/git.ts'
import { leadsOutside } from '../paths.ts'
import { matchesRemote } from '../plan.ts'
import type { PullBranchResult, Skipped } from '../types.ts'
import { takeCommits } from './commits.ts'
import type { PullJob } from './job.ts'
import type { TreeEntry } from './objects.ts'

/**
 * The sandbox's state as a new branch. It is assembled in the temporary repository, which borrows the local objects.
 * Only the finished branch is fetched, checked again, and given a free name.
 *
 *     uploaded head ──► the sandbox's own commits ──► one commit with the uncommitted rest
 */
export async function makeBranch(
  job: PullJob,
): Promise<Pick<PullBranchResult, 'branch'> & { skipped: Skipped[] }> {
  const { store, projectDir, manifest, opts } = job
  const name = await branchName(job)
  const head = manifest.repos.get('')?.head
  await borrowObjects(job, head)
  const skipped: Skipped[] = []
  const theirs = head === undefined ? undefined : await takeCommits(job, head, skipped)
  const base = theirs?.commit ?? head
  const files = await finalFiles(job, head, base, skipped)
  const baseTree =
    base === undefined ? undefined : (await store.run(['rev-parse', '--verify', `${base}^{tree}`])).text
  const tree = await store.tree(files, baseTree)
  const changed = baseTree === undefined ? files.size > 0 : tree !== baseTree
  if (!changed && !theirs) return { skipped }
  const commit = changed ? await commitTree(job, tree, base) : base!
  await store.run(['update-ref', 'refs/heads/result', commit])
  throwIfAborted(opts.signal, 'The pull')
  await fetchResult(projectDir, store.gitDir, opts.signal)
  return {
    branch: { name: await createBranch(projectDir, name, commit), commit, commits: theirs?.count ?? 0 },
    skipped,
  }
}

async function finalFiles(
  job: PullJob,
  head: string | undefined,
  base: string | undefined,
  skipped: Skipped[],
): Promise<Map<string, TreeEntry | undefined>> {
  const { store, manifest, remote, opts } = job
  const atHead = head === undefined ? new Map<string, TreeEntry>() : await store.entries(head)
  const atBase = base === undefined ? atHead : await store.entries(base)
  const nested = [...manifest.repos.keys()].filter(Boolean)
  const files = new Map<string, TreeEntry | undefined>()
  const same = (path: string) =>
    atBase.get(path)?.id === atHead.get(path)?.id && atBase.get(path)?.mode === atHead.get(path)?.mode
  let done = 0
  for (const [path, there] of remote) {
    throwIfAborted(opts.signal, 'The pull')
    opts.onProgress?.({ phase: 'send', done: done++, total: remote.size, path })
    const before = manifest.files.get(path)
    const untouched = before !== undefined && matchesRemote(before, there)
    if (nested.some((repo) => path.startsWith(`${repo}/`))) {
      if (!untouched)
        skipped.push({
          path,
          reason: 'it is in a submodule, which a branch of the project cannot hold; pull it as a patch',
        })
      continue
    }
    if (untouched && before.atHead && same(path)) continue
    if (there.type === 'symlink' && leadsOutside(path, there.target)) {
      // Reported with the changes. Removed from the sandbox's commits, unless it existed before.
      if (!same(path)) files.set(path, undefined)
    } else if (there.type === 'file' || there.type === 'symlink') {
      const entry = await store.take(
        job.sandbox,
        `${job.root}/${path}`,
        there,
        before?.type === 'file' ? before.mode : undefined,
      )
      if (entry === 'too large')
        skipped.push({ path, reason: `it is larger than ${job.limits.maxFileBytes} bytes` })
      else files.set(path, entry === 'gone' ? undefined : entry)
    } else if (
      there.type !== 'other' &&
      atBase.has(path) &&
      (before !== undefined || manifest.deleted.has(path) || !same(path))
    ) {
      files.set(path, undefined)
    }
  }
  for (const path of manifest.deleted)
    if (atBase.has(path) && !remote.has(path) && same(path)) files.set(path, undefined)
  for (const [path, entry] of files)
    if (entry && atBase.get(path)?.id === entry.id && atBase.get(path)?.mode === entry.mode)
      files.delete(path)
  return files
}

async function borrowObjects(
  { store, projectDir, temp, opts }: PullJob,
  head: string | undefined,
): Promise<void> {
  const call = { cwd: projectDir, signal: opts.signal }
  await store.init((await git(['rev-parse', '--show-object-format'], call)).text)
  const inRepo = async (name: string) =>
    resolve(projectDir, (await git(['rev-parse', '--git-path', name], call)).text)
  await mkdir(join(store.gitDir, 'objects', 'info'), { recursive: true })
  await writeFile(join(store.gitDir, 'objects', 'info', 'alternates'), `${await inRepo('objects')}\n`)
  await copyFile(await inRepo('shallow'), join(temp, 'objects.git', 'shallow')).catch(() => {})
  if (head === undefined) return
  const known = await store.run(['cat-file', '-e', `${head}^{commit}`], { accept: [0, 1, 128] })
  if (known.code === 0) return
  throw new SandboxError(
    'conflict',
    `The local repository does not have the commit ${head}, from which the sandbox started.`,
    {
      hint: "Pull with as: 'patch' instead, or upload the project again first.",
    },
  )
}

async function commitTree(
  { store, sandbox }: PullJob,
  tree: string,
  parent: string | undefined,
): Promise<string> {
  const who = [
    '-c',
    'user.name=Sandkasten',
    '-c',
    'user.email=sandkasten@localhost.invalid',
    '-c',
    'commit.gpgSign=false',
  ]
  const message = `Changes from the sandbox ${sandbox.sandboxId.replaceAll(/\p{Cc}/gu, ' ')}\n`
  return (
    await store.run([...who, 'commit-tree', tree, ...(parent ? ['-p', parent] : [])], { stdin: message })
  ).text
}

/** Copies new objects. Git checks every object, and touches no ref, no FETCH_HEAD and no working tree. */
async function fetchResult(projectDir: string, from: string, signal: AbortSignal | undefined): Promise<void> {
  const strict = [
    '-c',
    'fetch.fsckObjects=true',
    '-c',
    'transfer.fsckObjects=true',
    '-c',
    'protocol.allow=never',
    '-c',
    'protocol.file.allow=always',
  ]
  const quiet = [
    '--quiet',
    '--no-tags',
    '--no-write-fetch-head',
    '--no-recurse-submodules',
    '--no-auto-maintenance',
    '--update-shallow',
  ]
  await git([...strict, 'fetch', ...quiet, '--', from, 'refs/heads/result'], { cwd: projectDir, signal })
}

async function branchName({ projectDir, sandbox, opts }: PullJob): Promise<string> {
  const root = await git(['rev-parse', '--show-prefix'], {
    cwd: projectDir,
    accept: [0, 128],
    signal: opts.signal,
  })
  if (root.code !== 0 || root.text !== '') {
    throw invalid(
      '`as: "branch"` needs a projectDir that is the root of a git repository.',
      "Use as: 'patch', or run git init in projectDir.",
    )
  }
  const id = sandbox.sandboxId.replaceAll(/[^A-Za-z0-9_-]+/g, '-').replace(/^-+/, '') || 'sandbox'
  const name = opts.branch ?? `sandkasten/${id}`
  const valid = typeof name === 'string' && !name.startsWith('-') && !name.includes('\0')
  const checked = valid
    ? await git(['check-ref-format', `refs/heads/${name}`], { accept: [0, 1], signal: opts.signal })
    : undefined
  if (checked?.code !== 0) throw invalid(`\`branch\` is not a valid branch name: ${JSON.stringify(name)}.`)
  return name
}

/** Creates a branch and never moves one: adds a number until the name is free. */
async function createBranch(projectDir: string, name: string, commit: string): Promise<string> {
  const zero = '0'.repeat(commit.length)
  for (let number = 1; number <= 1000; number += 1) {
    const candidate = number === 1 ? name : `${name}-${number}`
    const ref = `refs/heads/${candidate}`
    if ((await git(['show-ref', '--verify', '--quiet', ref], { cwd: projectDir, accept: [0, 1] })).code === 0)
      continue
    const made = await git(['update-ref', '-m', 'sandkasten: pullChanges', ref, commit, zero], {
      cwd: projectDir,
      accept: [0, 1, 128],
    })
    if (made.code === 0) return candidate
    const raced = await git(['show-ref', '--verify', '--quiet', ref], { cwd: projectDir, accept: [0, 1] })
    if (raced.code !== 0) break
  }
  throw new SandboxError('conflict', `No branch named ${name} could be created in the local repository.`, {
    hint: 'Set branch to another name. A name cannot start with an existing branch’s name and a slash.',
  })
}
