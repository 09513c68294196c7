import { throwIfAborted } from '../shared/calls/abort.ts'
import { checkLimit, checkOptions, checkProjectDir, invalid, remoteFolder } from './checks.ts'
import { checkInclude } from './host/include.ts'
import { type LocalFile, type Scan, scanProject } from './host/scan.ts'
import type { TarItem } from './host/tar.ts'
import { withTempFolder } from './host/temp.ts'
import type { LocalEntry, UploadPlan } from './plan.ts'
import { syncHistory } from './remote/history.ts'
import { type Manifest, type ManifestEntry, readManifest, writeManifest } from './remote/manifest.ts'
import { type Staged, stage } from './remote/place.ts'
import { removePaths } from './remote/remove.ts'
import { findTools } from './remote/tools.ts'
import { withWorkFolder } from './remote/work.ts'
import type { GitDepth, RecipeSandbox, UploadProjectOpts, UploadResult } from './types.ts'
import { compare } from './upload/compare.ts'
import type { UploadJob } from './upload/job.ts'
import { prepareHistory } from './upload/prepare-history.ts'

/**
 * Sends a project's working tree and history into a sandbox: tracked, modified and untracked files without ignored
 * ones. A second upload sends local changes, removes what was deleted locally, and keeps the sandbox's changes. The
 * project is never written to; a failed upload leaves no partial result in the sandbox.
 *
 *     scan ─► compare with the manifest and the sandbox ─► stage ─► check ─► put in place ─► history ─► manifest
 */
export async function uploadProject(sandbox: RecipeSandbox, opts: UploadProjectOpts): Promise<UploadResult> {
  checkOptions(
    opts,
    ['projectDir', 'remotePath', 'git', 'include', 'force', 'onProgress', 'signal'],
    'uploadProject()',
  )
  const { signal } = opts
  throwIfAborted(signal, 'The upload')
  const depth = checkGit(opts.git)
  const root = remoteFolder(sandbox, opts.remotePath)
  const projectDir = await checkProjectDir(opts.projectDir)
  const include = await checkInclude(projectDir, opts.include)
  return withTempFolder(async (temp) => {
    opts.onProgress?.({ phase: 'scan', done: 0 })
    const onFile = (done: number) => opts.onProgress?.({ phase: 'scan', done })
    const scan = await scanProject(projectDir, { temp, include, onFile, signal })
    return withWorkFolder(sandbox, root, { signal }, (work) =>
      upload({ sandbox, root, work, temp, depth, scan, opts }),
    )
  })
}

async function upload(job: UploadJob): Promise<UploadResult> {
  const { sandbox, root, work, scan, opts } = job
  const { signal, onProgress } = opts
  const tools = await findTools(sandbox, { signal })
  const manifest = await readManifest(sandbox, root, { signal })
  const { plan, local, first } = await compare(job, manifest, tools)
  const history = await prepareHistory(job, manifest, tools)

  const items = [...plan.send.map((path) => itemOf(scan.files.get(path)!)), ...history.items]
  const totalBytes = plan.send.reduce((sum, path) => sum + scan.files.get(path)!.size, 0) + history.itemBytes
  const staged = await stage(sandbox, root, items, { tools, work, totalBytes, onProgress, signal })
  throwIfAborted(signal, 'The upload')
  await removePaths(sandbox, root, plan.remove, { tools })
  await commit(job, staged, items, first)

  const next: Manifest = {
    version: 1,
    files: nextFiles(scan, plan, local, staged, manifest),
    repos: history.states,
    deleted: scan.deleted,
  }
  const result: UploadResult = {
    remotePath: root,
    sent: plan.send.filter((path) => next.files.has(path)).length,
    unchanged: plan.unchanged.length,
    removed: plan.remove.length,
    bytes: [...staged.packed.values()].reduce((sum, { size }) => sum + size, 0),
    skipped: [...scan.skipped, ...history.skipped, ...staged.missed],
    conflicts: [...plan.conflicts, ...history.conflicts],
    lfs: scan.lfs,
    head: history.head,
  }
  // The manifest first: the files are in place even if the history fails.
  await writeManifest(sandbox, root, next, {})
  for (const { repo, now, before } of history.sync) {
    const synced = await syncHistory(sandbox, root, repo, now, before, { temp: job.temp, work, signal })
    next.repos.set(repo.path, synced.state)
    result.conflicts.push(...synced.conflicts)
    result.bytes += synced.bytes
  }
  if (history.sync.length > 0) await writeManifest(sandbox, root, next, {})
  onProgress?.({ phase: 'done', done: result.sent, total: result.sent })
  return result
}

/** In an empty folder the upload is atomic; elsewhere each file is replaced atomically. */
async function commit(
  { sandbox, root }: UploadJob,
  staged: Staged,
  items: readonly TarItem[],
  first: boolean,
): Promise<void> {
  try {
    await staged.commit()
  } catch (error) {
    const names = first ? new Set(items.map(({ path }) => path.split('/')[0]!)) : []
    for (const name of names)
      await sandbox.files.rm(`${root}/${name}`, { recursive: true, force: true }).catch(() => {})
    throw error
  }
}

function nextFiles(
  scan: Scan,
  plan: UploadPlan,
  local: ReadonlyMap<string, LocalEntry>,
  staged: Staged,
  manifest: Manifest | undefined,
): Map<string, ManifestEntry> {
  const files = new Map<string, ManifestEntry>()
  const conflicts = new Set(plan.conflicts.map(({ path }) => path))
  const equal = new Set(plan.equal)
  const send = new Set(plan.send)
  for (const [path, file] of scan.files) {
    const before = manifest?.files.get(path)
    const packed = staged.packed.get(path)
    const { atHead, mode } = file
    const here = local.get(path)
    if (send.has(path)) {
      if (file.type === 'symlink') files.set(path, { type: 'symlink', target: file.target!, atHead })
      else if (packed) files.set(path, { type: 'file', mode, ...packed, atHead })
    } else if (equal.has(path)) {
      if (here?.type === 'symlink') files.set(path, { ...here, atHead })
      else if (here) files.set(path, { ...here, size: file.size, atHead })
    } else if (before) {
      files.set(path, { ...before, atHead: atHead && !conflicts.has(path) })
    }
  }
  for (const [path, before] of manifest?.files ?? [])
    if (!scan.files.has(path) && conflicts.has(path)) files.set(path, { ...before, atHead: false })
  return files
}

function itemOf({ type, path, source, target, mode, mtimeMs }: LocalFile): TarItem {
  return { type, path, source, mode, mtimeMs, target }
}

function checkGit(value: unknown): GitDepth {
  if (value === undefined || value === 'full') return 'full'
  if (value === 'none') return 'none'
  if (typeof value === 'object' && value !== null && 'depth' in value)
    return { depth: checkLimit(value.depth, 'git.depth', 1) }
  throw invalid('`git` has an invalid value.', "Use 'full', 'none' or { depth: 1 }.")
}
