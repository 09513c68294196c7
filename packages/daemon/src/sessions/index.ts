export { volumesOf } from '../store/index.ts'
export { resultOf } from './commands/commands.ts'
export { type ResultAccount, ResultMemory } from './commands/result-memory.ts'
export { fitMemory, fitTexts } from './commands/result-size.ts'
export { enterShell, shellQueue } from './commands/shell-queue.ts'
export { closeShell, mainShell, shellOf } from './commands/shells.ts'
export type {
  Command,
  CommandRequest,
  ExecResult,
  LiveCommand,
  RunRequest,
  ShellRequest,
} from './commands/types.ts'
export {
  type Context,
  type DaemonProvider,
  instanceLabel,
  type Sandbox,
  type Session,
  sessionLabel,
} from './context.ts'
export { EventBus, type SessionEvent } from './events.ts'
export { EndTimer } from './leases/end-timer.ts'
export { idleEnd, lifetimeEnd } from './leases/scheduled-ends.ts'
export type { Rules } from './limits/policy.ts'
export { checkArgv, checkCount, checkEnv, requestLimits } from './limits/request-limits.ts'
export { LiveSessions, type Open } from './live-sessions.ts'
export type { EgressEvent } from './network/egress-watch.ts'
export {
  type GivenNetwork,
  type GivenPolicy,
  networkOfRow,
  type SessionNetwork,
  type SessionPolicy,
  shownNetwork,
} from './network/policy.ts'
export { includesTarget } from './network/targets.ts'
export type { CreateRequest } from './plan.ts'
export { Pool, poolLabel } from './pool.ts'
export { type ProviderFacts, SessionService } from './sessions.ts'
export type { Used } from './use.ts'
export { volumeName } from './volumes/names.ts'
export type { Volume } from './volumes/volumes.ts'
