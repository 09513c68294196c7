/** What happens without a caller: keeping sandboxes in use alive, due work, reconciliation. */

export { dueAt } from './due.ts'
export { DueWork, type DueWorkOptions } from './due-work.ts'
export { type HeldOptions, HeldSandboxes } from './held-sandboxes.ts'
export { type HoldRooms, hold } from './hold.ts'
export { reconcile } from './reconcile.ts'
export { SteadyTime, type TimeSource } from './steady-time.ts'
export { type UseKey, Uses } from './uses.ts'
export { hasWorker } from './worker-sign.ts'
