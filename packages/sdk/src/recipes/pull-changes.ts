import { SandboxError } from '../errors.ts'
import { throwIfAborted } from '../shared/calls/abort.ts'
import { checkLimit, checkOptions, checkProjectDir, invalid, remoteFolder } from './checks.ts'
import { withTempFolder } from './host/temp.ts'
import { makeBranch } from './pull/branch.ts'
import { type Changes, findChanges } from './pull/changes.ts'
import type { PullJob } from './pull/job.ts'
import { ObjectStore } from './pull/objects.ts'
import { makePatch } from './pull/patch.ts'
import { listSandbox } from './remote/listing.ts'
import { readManifest } from './remote/manifest.ts'
import { probe } from './remote/probe.ts'
import { findTools } from './remote/tools.ts'
import type {
  Conflict,
  PullBranchResult,
  PullChangesOpts,
  PullPatchResult,
  PullResult,
  RecipeSandbox,
  Skipped,
} from './types.ts'

/**
 * Returns the changes in the sandbox since `uploadProject`, as a patch or a new branch. The working tree, the index,
 * HEAD and existing branches stay unchanged; files that also changed locally are reported as conflicts.
 *
 * Everything from the sandbox is hostile. Names are checked before use and never become local paths, contents become
 * git objects in a temporary folder, and the sandbox's configuration is not used.
 */
export async function pullChanges(
  sandbox: RecipeSandbox,
  opts: PullChangesOpts & { as: 'patch' },
): Promise<PullPatchResult>
export async function pullChanges(
  sandbox: RecipeSandbox,
  opts: PullChangesOpts & { as: 'branch' },
): Promise<PullBranchResult>
export async function pullChanges(sandbox: RecipeSandbox, opts: PullChangesOpts): Promise<PullResult>
export async function pullChanges(sandbox: RecipeSandbox, opts: PullChangesOpts): Promise<PullResult> {
  checkOptions(
    opts,
    ['projectDir', 'remotePath', 'as', 'branch', 'maxFileBytes', 'maxTotalBytes', 'onProgress', 'signal'],
    'pullChanges()',
  )
  if (opts.as !== 'patch' && opts.as !== 'branch')
    throw invalid(`\`as\` is ${JSON.stringify(opts.as)}.`, "Use 'patch' or 'branch'.")
  const limits = {
    maxFileBytes: checkLimit(opts.maxFileBytes, 'maxFileBytes', 100 * 1024 * 1024),
    maxTotalBytes: checkLimit(opts.maxTotalBytes, 'maxTotalBytes', 1024 * 1024 * 1024),
  }
  const { signal, onProgress } = opts
  throwIfAborted(signal, 'The pull')
  const root = remoteFolder(sandbox, opts.remotePath)
  const projectDir = await checkProjectDir(opts.projectDir)
  return withTempFolder(async (temp) => {
    const manifest = await readManifest(sandbox, root, { signal })
    if (!manifest) throw notUploaded(root)
    const tools = await findTools(sandbox, { signal })
    onProgress?.({ phase: 'scan', done: 0 })
    const { paths, skipped } = await listSandbox(sandbox, root, { tools, manifest, temp, signal })
    const remote = await probe(sandbox, root, paths, { tools, signal })
    onProgress?.({ phase: 'scan', done: paths.length, total: paths.length })
    const changes = await findChanges({ projectDir, manifest, remote, signal })
    const store = new ObjectStore(temp, limits, signal)
    const job: PullJob = { sandbox, root, projectDir, manifest, remote, tools, store, temp, limits, opts }
    const result =
      opts.as === 'patch' ? await asPatch(job, changes, skipped) : await asBranch(job, changes, skipped)
    onProgress?.({ phase: 'done', done: result.files.length, total: result.files.length })
    return result
  })
}

async function asPatch(job: PullJob, changes: Changes, skipped: Skipped[]): Promise<PullPatchResult> {
  const made = await makePatch(job, changes.clean)
  return {
    as: 'patch',
    patch: made.patch,
    files: made.files,
    ...facts(job, changes, [...skipped, ...made.skipped]),
  }
}

async function asBranch(job: PullJob, changes: Changes, skipped: Skipped[]): Promise<PullBranchResult> {
  const made = await makeBranch(job)
  const left = new Set(made.skipped.map(({ path }) => path))
  const files = [
    ...changes.clean,
    ...changes.same,
    ...changes.conflicts.map(({ path, change }) => ({ path, change })),
  ]
  return {
    as: 'branch',
    branch: made.branch,
    files: files.filter(({ path }) => !left.has(path)).sort((a, b) => (a.path < b.path ? -1 : 1)),
    ...facts(job, changes, [...skipped, ...made.skipped]),
  }
}

function facts({ manifest }: PullJob, changes: Changes, skipped: Skipped[]) {
  const head = manifest.repos.get('')?.head
  return {
    conflicts: changes.conflicts.map(({ change: _, ...conflict }): Conflict => conflict),
    same: changes.same.map(({ path }) => path),
    skipped: [...changes.skipped, ...skipped],
    head,
  }
}

function notUploaded(root: string): SandboxError {
  return new SandboxError('file_not_found', `${root} in the sandbox has no record of an upload.`, {
    hint: 'Use the remotePath of the upload. If the project was never uploaded, call uploadProject() first.',
  })
}
