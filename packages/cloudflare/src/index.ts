/** `@sandkasten/cloudflare`: generates wrangler configuration from `*.sandbox.ts` files. */
export { applyEdits } from './apply/apply.ts'
export { unifiedDiff } from './apply/diff.ts'
export { type DiscoverOptions, type Discovery, discover, type SandboxSource } from './discover/discover.ts'
export type { InstanceType, Statics } from './discover/statics.ts'
export {
  assertHealthy,
  type Probe,
  type ProbeOptions,
  type ProbeTarget,
  probeSandbox,
} from './healthcheck.ts'
export type { CallSite } from './migrate/call-sites.ts'
export { type MigrateOptions, type MigrateResult, migrate } from './migrate/migrate.ts'
export type { Edit, Json, JsonObject, Path } from './plan/edits.ts'
export { type Plan, type PlanInput, type PlannedSandbox, plan } from './plan/plan.ts'
export { emptyRecord, formatRecord, type ManagedRecord, parseRecord } from './plan/record.ts'
export type { SyncOptions, SyncResult } from './prepare.ts'
export { CloudflareSyncError, formatProblem, type Place, type Problem, type Severity } from './problem.ts'
export { check, sync } from './sync.ts'
export { generateTypes, renderTypes, type TypesOptions, type TypesResult } from './types.ts'
