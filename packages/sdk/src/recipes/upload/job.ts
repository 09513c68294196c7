import type { Scan } from '../host/scan.ts'
import type { GitDepth, RecipeSandbox, UploadProjectOpts } from '../types.ts'

/** What the stages of an upload work with. */
export interface UploadJob {
  sandbox: RecipeSandbox
  root: string
  /** A folder of ours in the sandbox, for the time of the upload. */
  work: string
  /** One on this machine. */
  temp: string
  depth: GitDepth
  scan: Scan
  opts: UploadProjectOpts
}
