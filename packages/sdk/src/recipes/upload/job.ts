import type { Scan } from '../host/scan.ts'
import type { GitDepth, RecipeSandbox, UploadProjectOpts } from '../types.ts'

export interface UploadJob {
  sandbox: RecipeSandbox
  root: string
  work: string
  temp: string
  depth: GitDepth
  scan: Scan
  opts: UploadProjectOpts
}
