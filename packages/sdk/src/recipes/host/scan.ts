import { lstat, readlink, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { throwIfAborted } from '../../shared/calls/abort.ts'
import { mapLimit } from '../../shared/calls/map-limit.ts'
import { isReserved, leadsOutside, splitNames, stateFolder } from '../paths.ts'
import type { Skipped } from '../types.ts'
import { git } from './git.ts'
import { includedHere } from './include.ts'
import { lfsKind } from './lfs.ts'

export interface LocalFile {
  type: 'file' | 'symlink'
  path: string
  source: string
  mode: number
  size: number
  mtimeMs: number
  target?: string
  atHead: boolean
}

/** A repository in the project: the project itself, a submodule, or a nested repository. */
export interface LocalRepo {
  /** Relative to the project, `''` for the project itself. */
  path: string
  dir: string
  /** Tracked files that a sparse checkout omits. */
  sparse: string[]
}

export interface Scan {
  files: Map<string, LocalFile>
  repos: LocalRepo[]
  skipped: Skipped[]
  /** Tracked, but missing; excludes files that a sparse checkout omits. */
  deleted: Set<string>
  lfs: { content: number; pointers: number }
}

interface ScanOptions {
  temp: string
  include: readonly string[]
  onFile?: (done: number) => void
  signal?: AbortSignal | undefined
}

/**
 * Lists the working tree: tracked, modified and untracked files without ignored ones, including nested repositories.
 * In a folder without git, applies its `.gitignore` files. Never writes.
 */
export async function scanProject(projectDir: string, options: ScanOptions): Promise<Scan> {
  const scan: Scan = {
    files: new Map(),
    repos: [],
    skipped: [],
    deleted: new Set(),
    lfs: { content: 0, pointers: 0 },
  }
  const top = await topLevel(projectDir, options)
  await scanFolder(scan, projectDir, '', top, options)
  return scan
}

async function topLevel(dir: string, { signal }: ScanOptions): Promise<'root' | 'inside' | 'none'> {
  const answer = await git(['rev-parse', '--show-toplevel'], { cwd: dir, accept: [0, 128], signal })
  if (answer.code === 0) {
    if ((await realpath(answer.text)) === dir) return 'root'
    // A folder that is ignored by the surrounding repository does not belong to it.
    const ignored = await git(['check-ignore', '--quiet', '--', '.'], {
      cwd: dir,
      accept: [0, 1, 128],
      signal,
    })
    return ignored.code === 0 ? 'none' : 'inside'
  }
  const own = await lstat(join(dir, '.git')).catch(() => undefined)
  if (!own) return 'none'
  // Git refuses the repository: report the reason instead of sending something else.
  await git(['rev-parse', '--show-toplevel'], { cwd: dir, signal })
  return 'none'
}

async function scanFolder(
  scan: Scan,
  dir: string,
  prefix: string,
  kind: 'root' | 'inside' | 'none',
  options: ScanOptions,
): Promise<void> {
  const { signal } = options
  const repoArgs = kind === 'none' ? await scratchRepo(dir, options) : []
  const call = { cwd: dir, signal }
  const tracked =
    kind === 'none' ? { names: [], notUtf8: [], nested: [], sparse: [] } : await listTracked(call)
  const others = splitNames(
    (await git([...repoArgs, 'ls-files', '-z', '--others', '--exclude-standard'], call)).stdout,
  )
  const nested = new Set([
    ...tracked.nested,
    ...others.names.filter((name) => name.endsWith('/')).map((name) => name.slice(0, -1)),
  ])
  const wanted = await includedHere(options.include, prefix, nested, async (paths) => {
    const args = [
      '--literal-pathspecs',
      ...repoArgs,
      'ls-files',
      '-z',
      '--others',
      '--ignored',
      '--exclude-standard',
      '--',
      ...paths,
    ]
    return splitNames((await git(args, call)).stdout).names
  })
  const names = [...new Set([...tracked.names, ...others.names, ...wanted])].filter(
    (name) => !name.endsWith('/'),
  )
  for (const name of [...tracked.notUtf8, ...others.notUtf8])
    scan.skipped.push({ path: prefix + name, reason: 'its name is not UTF-8' })

  if (kind === 'root') scan.repos.push({ path: prefix.slice(0, -1), dir, sparse: tracked.sparse })
  if (kind === 'inside') {
    const reason =
      'projectDir is a folder inside a repository: its files are sent without the history; to include it, send the repository’s root'
    scan.skipped.push({ path: '.git', reason })
  }
  const modified = kind === 'root' ? await modifiedSinceHead(call) : undefined
  const trackedNames = new Set(tracked.names)
  const found = await mapLimit(names, 32, async (name) => {
    throwIfAborted(signal, 'Reading the project')
    return look(dir, prefix, name, modified !== undefined && trackedNames.has(name) && !modified.has(name))
  })
  const sparse = new Set(tracked.sparse)
  for (const [index, file] of found.entries()) {
    const name = names[index]!
    if (file === undefined) {
      if (trackedNames.has(name) && !sparse.has(name)) scan.deleted.add(prefix + name)
    } else if ('reason' in file) scan.skipped.push(file)
    else scan.files.set(file.path, file)
  }
  options.onFile?.(scan.files.size)
  await countLfs(scan, repoArgs, dir, prefix, found, options)

  for (const name of [...nested].sort()) {
    const own = await lstat(join(dir, name, '.git')).catch(() => undefined)
    // A submodule that is not checked out is an empty folder.
    if (own) await scanFolder(scan, join(dir, name), `${prefix}${name}/`, 'root', options)
  }
}

async function look(
  dir: string,
  prefix: string,
  name: string,
  atHead: boolean,
): Promise<LocalFile | Skipped | undefined> {
  const path = prefix + name
  const source = join(dir, name)
  const facts = await lstat(source).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined // Deleted, but still in the index.
    throw error
  })
  if (!facts || facts.isDirectory()) return undefined
  if (isReserved(path)) return { path, reason: `the name ${stateFolder} is used by the upload itself` }
  const file = { path, source, mode: facts.mode & 0o777, mtimeMs: facts.mtimeMs, atHead }
  if (facts.isFile()) return { ...file, type: 'file', size: facts.size }
  if (!facts.isSymbolicLink()) return { path, reason: 'it is neither a file nor a symbolic link' }
  const target = await readlink(source)
  if (leadsOutside(path, target))
    return { path, reason: `the symbolic link points outside the project (${target})` }
  return { ...file, type: 'symlink', mode: 0o777, size: 0, target }
}

async function listTracked(call: { cwd: string; signal: AbortSignal | undefined }) {
  const { names: rows, notUtf8 } = splitNames((await git(['ls-files', '-z', '-t', '--stage'], call)).stdout)
  const names: string[] = []
  const nested: string[] = []
  const sparse: string[] = []
  for (const row of rows) {
    const name = row.slice(row.indexOf('\t') + 1)
    if (row.slice(2, 8) === '160000') nested.push(name)
    else names.push(name)
    if (row.startsWith('S ')) sparse.push(name)
  }
  return { names, notUtf8: notUtf8.map((row) => row.slice(row.indexOf('\t') + 1)), nested, sparse }
}

/** Tracked files that differ from HEAD; undefined before the first commit. */
async function modifiedSinceHead(call: {
  cwd: string
  signal: AbortSignal | undefined
}): Promise<Set<string> | undefined> {
  if (
    (await git(['rev-parse', '--verify', '--quiet', 'HEAD^{commit}'], { ...call, accept: [0, 1] })).code !== 0
  )
    return undefined
  const args = [
    'status',
    '--porcelain=v2',
    '-z',
    '--no-renames',
    '--untracked-files=no',
    '--ignore-submodules=all',
  ]
  const { names: rows } = splitNames((await git(args, call)).stdout)
  return new Set(
    rows.map((row) =>
      row
        .split(' ')
        .slice(row.startsWith('u ') ? 10 : 8)
        .join(' '),
    ),
  )
}

/** A temporary git folder, so that ignore rules work without a repository. */
async function scratchRepo(dir: string, { temp, signal }: ScanOptions): Promise<string[]> {
  const gitDir = join(temp, 'scan.git')
  await git(['init', '--quiet', '--bare', '--template=', '--', gitDir], { signal })
  return [`--git-dir=${gitDir}`, `--work-tree=${dir}`, '-c', 'core.bare=false']
}

async function countLfs(
  scan: Scan,
  repoArgs: string[],
  dir: string,
  prefix: string,
  found: Array<LocalFile | Skipped | undefined>,
  options: ScanOptions,
): Promise<void> {
  const files = found.filter(
    (file): file is LocalFile => file !== undefined && 'type' in file && file.type === 'file',
  )
  if (files.length === 0) return
  const input = files.map((file) => `${file.path.slice(prefix.length)}\0`).join('')
  const answer = await git([...repoArgs, 'check-attr', '-z', '--stdin', 'filter'], {
    cwd: dir,
    stdin: input,
    signal: options.signal,
  })
  const values = answer.stdout.toString('utf8').split('\0')
  for (const [index, file] of files.entries()) {
    if (values[index * 3 + 2] === 'lfs') scan.lfs[await lfsKind(file.source, file.size)] += 1
  }
}
