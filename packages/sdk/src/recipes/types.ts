import type { CallOptions, SandboxCore } from '../spec/index.ts'

/** The part of a sandbox that recipes use; a `restricted()` view is enough. */
export type RecipeSandbox = Pick<SandboxCore, 'sandboxId' | 'workdir' | 'files' | 'runCommand'>

export interface ProgressEvent {
  phase: 'scan' | 'pack' | 'send' | 'extract' | 'verify' | 'done'
  /** A number of files, or of bytes in the phases `pack` and `send`. */
  done: number
  total?: number
  /** The current file, relative to the project. */
  path?: string
}

export type OnProgress = (event: ProgressEvent) => void

/**
 * `full`: the complete history of all branches and tags. `none`: files only. `depth`: this many commits per branch.
 */
export type GitDepth = 'full' | 'none' | { depth: number }

export interface UploadProjectOpts extends CallOptions {
  /** A local folder. It is never written to. */
  projectDir: string
  /** The destination in the sandbox. Default: the sandbox's `workdir`. */
  remotePath?: string
  /** How much history to send. Default `full`. */
  git?: GitDepth
  /** Ignored files and folders to send anyway (`['.env', 'dist']`), relative to the project. */
  include?: readonly string[]
  /** If both sides changed a file, send the local one instead of reporting a conflict. */
  force?: boolean
  onProgress?: OnProgress
}

export interface Skipped {
  path: string
  reason: string
}

export interface Conflict {
  /** A file; or `HEAD`, `index`, `refs/heads/…` for history. In a submodule, prefixed with its path. */
  path: string
  reason: string
  localSha256?: string
  sandboxSha256?: string
}

export interface UploadResult {
  /** The project's absolute path inside the sandbox. */
  remotePath: string
  sent: number
  unchanged: number
  removed: number
  /** Bytes sent, including history. */
  bytes: number
  skipped: Skipped[]
  /** Changed on both sides; the sandbox's version was kept. */
  conflicts: Conflict[]
  /** Files under Git LFS, as in the working tree. */
  lfs: { content: number; pointers: number }
  /** The commit at HEAD of the project, if any. */
  head?: string
}

export interface PullChangesOpts extends CallOptions {
  /** The uploaded project. Its working tree, index, HEAD and branches are never changed. */
  projectDir: string
  remotePath?: string
  /** `patch`: text for `git apply`. `branch`: a new branch in the local repository. */
  as: 'patch' | 'branch'
  /** The new branch's name; a taken name gets a number. Default `sandkasten/<sandboxId>`. */
  branch?: string
  /** Larger files stay in the sandbox and are reported. Default 100 MiB. */
  maxFileBytes?: number
  /** A larger total rejects with `too_large`. Default 1 GiB. */
  maxTotalBytes?: number
  onProgress?: OnProgress
}

export interface PulledFile {
  path: string
  change: 'added' | 'modified' | 'deleted'
}

interface PullFacts {
  /** The content of the patch or branch, compared with the upload. */
  files: PulledFile[]
  /** Changed differently on both sides. Omitted from a patch; a branch has the sandbox's version. */
  conflicts: Conflict[]
  /** Changed equally on both sides. */
  same: string[]
  skipped: Skipped[]
  /** The uploaded commit. */
  head?: string
}

export interface PullPatchResult extends PullFacts {
  as: 'patch'
  /** Empty if nothing changed. */
  patch: string
}

export interface PullBranchResult extends PullFacts {
  as: 'branch'
  /** Absent if nothing changed. `commits`: the number of the sandbox's own commits in it. */
  branch?: { name: string; commit: string; commits: number }
}

export type PullResult = PullPatchResult | PullBranchResult

export interface CloneRepoOpts extends CallOptions {
  url: string
  /** Used only for this clone, and never stored. */
  token?: string
  /** The user name for the token. Default: `x-access-token`. */
  username?: string
  branch?: string
  /** Default: the complete history. */
  depth?: number
  /** An empty or new folder. Default: the sandbox's `workdir`. */
  path?: string
}

export interface CloneResult {
  path: string
  head?: string
  branch?: string
}
