/** Create, resume, stop, snapshot and destroy named sandboxes on any provider. See the README. */

export { destroy, finishDestroy } from './destroy.ts'
export { labelsOf, removeLeftovers } from './leftovers.ts'
export { checkProvider } from './provider-name.ts'
export { reasonText } from './reason.ts'
export { remarkOf } from './refresh.ts'
export { Resume } from './resume.ts'
export { noting, type Run } from './run.ts'
export { type Rooms, ScopedSandboxes } from './scoped-registry.ts'
export { check, markGone, recover, settle } from './settle.ts'
export { type SnapshotUnderLease, snapshot, snapshotInterrupts } from './snapshot.ts'
export { stop } from './stop.ts'
export { observe } from './truth.ts'
