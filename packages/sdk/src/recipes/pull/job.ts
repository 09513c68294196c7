import type { Manifest } from '../remote/manifest.ts'
import type { RemoteEntry } from '../remote/probe.ts'
import type { Tool } from '../remote/tools.ts'
import type { PullChangesOpts, RecipeSandbox } from '../types.ts'
import type { ObjectStore } from './objects.ts'

export interface PullJob {
  sandbox: RecipeSandbox
  root: string
  projectDir: string
  manifest: Manifest
  remote: ReadonlyMap<string, RemoteEntry>
  tools: ReadonlySet<Tool>
  store: ObjectStore
  temp: string
  limits: { maxFileBytes: number; maxTotalBytes: number }
  opts: PullChangesOpts
}
