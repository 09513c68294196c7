/**
 * The entry for authors of providers: `DriverProvider`, which turns a driver into the full contract, and shared
 * helpers.
 */
export type * from './core/driver.ts'
export { type ReachedEvent, ReachedTargets } from './core/network/learned.ts'
export type { NormalNetwork, NormalPolicy, NormalRule, NormalTransform } from './core/network/normal.ts'
export { normalizeNetwork } from './core/network/normalize.ts'
export { isSecretName } from './core/network/secret.ts'
export { checkSecretValue, secretLimits } from './core/network/secret-limits.ts'
export { DriverProvider } from './core/provider.ts'
export { checkCount, checkKnown, checkMs } from './core/validate.ts'
export { abortable, abortedError, onAbort, throwIfAborted } from './shared/calls/abort.ts'
export { maybeDone } from './shared/calls/maybe-done.ts'
export { type Access, errnoHint } from './shared/errno-hint.ts'
export { gitCredentials } from './shared/git-clone.ts'
export { randomId } from './shared/ids.ts'
export { ListingSize } from './shared/listing.ts'
export {
  asBytes,
  type ByteSource,
  chunksOf,
  concat,
  encode,
  streamOf,
  takeSource,
} from './shared/output/bytes.ts'
export { HeadTail } from './shared/output/collect.ts'
export { OutputLog } from './shared/output/output-log.ts'
export { matches, pageOf } from './shared/page.ts'
export { quoteArg, quoteArgs } from './shared/quote.ts'
export {
  checkRuntimes,
  hasRuntime,
  mappedRuntime,
  noRuntime,
  type Programs,
  runtimeNames,
} from './shared/runtime.ts'
