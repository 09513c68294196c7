export {
  type CommonCapabilities,
  type Failover,
  type FailoverOptions,
  type FailoverProvider,
  failover,
} from './failover.ts'
export { FailoverAccount, type FailoverAttempt } from './failover-account.ts'
export {
  type AutoSnapshotOptions,
  type Beat,
  type BeatFailure,
  type KeepAlive,
  type KeepAliveEnd,
  type KeepAliveOptions,
  keepAlive,
} from './keep-alive.ts'
export type { Leftover } from './leftovers.ts'
export { type Retry, type RetryOptions, retry } from './retry.ts'
export { type RetrySubject, withRetry } from './with-retry.ts'
