import type { Scan } from '../host/scan.ts'
import type { GitDepth, RecipeSandbox, UploadProjectOpts } from '../types.ts'

export interface UploadJob {
  sandbox: RecipeSandbox
  root: string
  /** Our temporary folder in the sandbox. */
  work: string
  /** Our local temporary folder. */
  temp: string
  depth: GitDepth
  scan: Scan
  opts: UploadProjectOpts
}
