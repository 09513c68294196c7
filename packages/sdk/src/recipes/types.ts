import type { CallOptions, SandboxCore } from '../spec/index.ts'

/** The part of a sandbox that recipes use; a `restricted()` view is enough. */
export type RecipeSandbox = Pick<SandboxCore, 'sandboxId' | 'workdir' | 'files' | 'runCommand'>

export interface ProgressEvent {
  phase: 'scan' | 'pack' | 'send' | 'extract' | 'verify' | 'done'
  /** Files, or in the phases `pack` and `send`, bytes. */
  done: number
  total?: number
  /** The file at hand, relative to the project. */
  path?: string
}

export type OnProgress = (event: ProgressEvent) => void

/** `full`: all history of all branches and tags. `none`: files only. `depth`: so many commits of each branch. */
export type GitDepth = 'full' | 'none' | { depth: number }

export interface UploadProjectOpts extends CallOptions {
  /** A folder on this machine. Nothing is ever written in it. */
  projectDir: string
  /** Where it goes in the sandbox. Default: the sandbox's `workdir`. */
  remotePath?: string
  /** How much history travels. Default `full`. */
  git?: GitDepth
  /** Ignored files and folders to send all the same (`['.env', 'dist']`), relative to the project. */
  include?: readonly string[]
  /** Where both sides changed a file, the local one wins, instead of a conflict being reported. */
  force?: boolean
  onProgress?: OnProgress
}

export interface Skipped {
  path: string
  reason: string
}

export interface Conflict {
  /** A file; or `HEAD`, `index`, `refs/heads/…` for history; both with a submodule's path before them. */
  path: string
  reason: string
  localSha256?: string
  sandboxSha256?: string
}

export interface UploadResult {
  /** Where the project is now: an absolute path inside the sandbox. */
  remotePath: string
  sent: number
  unchanged: number
  removed: number
  /** Content sent, history included. */
  bytes: number
  skipped: Skipped[]
  /** Changed on both sides: left as the sandbox has them. */
  conflicts: Conflict[]
  /** Files under Git LFS, as the working tree has them. */
  lfs: { content: number; pointers: number }
  /** The commit that HEAD of the project is at; undefined without one. */
  head?: string
}

export interface PullChangesOpts extends CallOptions {
  /** The project that was uploaded. Its working tree, index, HEAD and branches are never changed. */
  projectDir: string
  remotePath?: string
  /** `patch`: text for `git apply`. `branch`: a new branch in the local repository. */
  as: 'patch' | 'branch'
  /** The new branch's name; numbered when it is taken. Default `sandkasten/<sandboxId>`. */
  branch?: string
  /** Larger files stay in the sandbox and are reported. Default 100 MiB. */
  maxFileBytes?: number
  /** Reject with `too_large` rather than take more than this in all. Default 1 GiB. */
  maxTotalBytes?: number
  onProgress?: OnProgress
}

export interface PulledFile {
  path: string
  change: 'added' | 'modified' | 'deleted'
}

interface PullFacts {
  /** What is in the patch or on the branch, compared with what was uploaded. */
  files: PulledFile[]
  /** Changed here and there, differently. Not in a patch; on a branch as the sandbox has them. */
  conflicts: Conflict[]
  /** Changed here and there, to the same content. */
  same: string[]
  skipped: Skipped[]
  /** The commit that was uploaded. */
  head?: string
}

export interface PullPatchResult extends PullFacts {
  as: 'patch'
  /** Empty when nothing changed. */
  patch: string
}

export interface PullBranchResult extends PullFacts {
  as: 'branch'
  /** Absent when nothing changed. `commits`: how many of the sandbox's own are in it. */
  branch?: { name: string; commit: string; commits: number }
}

export type PullResult = PullPatchResult | PullBranchResult

export interface CloneRepoOpts extends CallOptions {
  url: string
  /** Used for this one clone, and written nowhere. */
  token?: string
  /** Whose token it is, where the server asks. Default: `x-access-token`. */
  username?: string
  branch?: string
  /** Default: all history. */
  depth?: number
  /** An empty or new folder. Default: the sandbox's `workdir`. */
  path?: string
}

export interface CloneResult {
  path: string
  head?: string
  branch?: string
}
