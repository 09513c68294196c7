/** One operation on one sandbox at a time, across processes and machines. */

export { type HolderState, pidOf, stateOf, thisHolder } from './holder.ts'
export type { Lease } from './lease.ts'
export { Leases, type OperateOptions } from './operate.ts'
export { BeatWatch, silentMs } from './watch.ts'
