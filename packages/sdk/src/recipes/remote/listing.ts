import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { SandboxError } from '../../errors.ts'
import type { CallOptions } from '../../spec/index.ts'
import { git } from '../host/git.ts'
import { isReserved, isSafePath, splitNames } from '../paths.ts'
import type { RecipeSandbox, Skipped } from '../types.ts'
import type { Manifest } from './manifest.ts'
import { remoteGit, type Tool } from './tools.ts'

interface ListOptions extends CallOptions {
  tools: ReadonlySet<Tool>
  manifest: Manifest
  temp: string
}

/**
 * The files in the sandbox that may be pulled: uploaded ones, and others that its ignore rules allow. Names that lead
 * out of the project, or into a `.git`, are removed here.
 */
export async function listSandbox(
  sandbox: RecipeSandbox,
  root: string,
  options: ListOptions,
): Promise<{ paths: string[]; skipped: Skipped[] }> {
  const skipped: Skipped[] = []
  const byGit =
    options.tools.has('git') && options.manifest.repos.get('')?.sent
      ? await listByGit(sandbox, root, '', options, skipped)
      : undefined
  const found = byGit ?? (await listByApi(sandbox, root, options))
  const paths = new Set(options.manifest.files.keys())
  for (const path of found) {
    if (isReserved(path)) continue
    if (path.includes('\ufffd')) skipped.push({ path, reason: 'its name is not UTF-8' })
    else if (!isSafePath(path))
      skipped.push({ path, reason: 'its name leads outside the project or into a .git folder' })
    else paths.add(path)
  }
  return { paths: [...paths].sort(), skipped }
}

/** Undefined if git no longer finds a repository. */
async function listByGit(
  sandbox: RecipeSandbox,
  root: string,
  prefix: string,
  options: ListOptions,
  skipped: Skipped[],
): Promise<string[] | undefined> {
  const { manifest, signal } = options
  const dir = `${root}/${prefix}`.replace(/\/$/, '')
  // The folder's own repository, not a parent's.
  if (!(await sandbox.files.exists(`${dir}/.git`, { signal }))) return undefined
  const tracked = await names(sandbox, dir, ['ls-files', '-z', '--stage'], signal)
  const others = await names(sandbox, dir, ['ls-files', '-z', '--others', '--exclude-standard'], signal)
  if (!tracked || !others) return undefined
  const nested = new Set(others.filter((name) => name.endsWith('/')).map((name) => name.slice(0, -1)))
  const files = others.filter((name) => !name.endsWith('/'))
  for (const row of tracked) {
    const name = row.slice(row.indexOf('\t') + 1)
    if (row.startsWith('160000')) nested.add(name)
    else files.push(name)
  }
  const all = files.map((name) => prefix + name)
  for (const name of nested) {
    const path = prefix + name
    if (!manifest.repos.has(path))
      skipped.push({ path, reason: 'it is a repository of its own that was not uploaded' })
    else if (isSafePath(path))
      all.push(...((await listByGit(sandbox, root, `${path}/`, options, skipped)) ?? []))
  }
  return all
}

async function names(
  sandbox: RecipeSandbox,
  dir: string,
  args: string[],
  signal: AbortSignal | undefined,
): Promise<string[] | undefined> {
  const result = await remoteGit(sandbox, dir, args, { signal })
  if (result.truncated)
    throw new SandboxError('too_large', 'The sandbox lists too many files.', {
      hint: 'Add generated files to its .gitignore.',
    })
  return result.exitCode === 0 ? result.stdout.split('\0').filter(Boolean) : undefined
}

/** Without git in the sandbox, the local git applies the sandbox's `.gitignore` files in an empty folder. */
async function listByApi(
  sandbox: RecipeSandbox,
  root: string,
  { temp, signal }: ListOptions,
): Promise<string[]> {
  const entries = await sandbox.files.list(root, { recursive: true, signal })
  const paths = entries
    .filter(({ type, path }) => type !== 'directory' && !/(^|\/)\.git(\/|$)/.test(path))
    .map(({ path }) => path)
  const rules = paths.filter((path) => /(^|\/)\.gitignore$/.test(path) && isSafePath(path))
  if (rules.length === 0) return paths
  const tree = join(temp, 'rules')
  await git(['init', '--quiet', '--template=', '--', tree], { signal })
  for (const path of rules) {
    const text = await sandbox.files.readFile(`${root}/${path}`, { maxBytes: 1024 * 1024, signal })
    await mkdir(dirname(join(tree, path)), { recursive: true })
    await writeFile(join(tree, path), text, { flag: 'wx' })
  }
  const known = paths.filter(isSafePath)
  const stdin = known.map((path) => `./${path}\0`).join('')
  const answer = await git(['check-ignore', '--no-index', '-z', '--stdin'], {
    cwd: tree,
    stdin,
    accept: [0, 1],
    signal,
  })
  const ignored = new Set(splitNames(answer.stdout).names.map((path) => path.replace(/^\.\//, '')))
  return paths.filter((path) => !ignored.has(path))
}
