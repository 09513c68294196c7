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
export { EndTimer } from './end-timer.ts'
export { EventBus, type SessionEvent } from './events.ts'
export { idleEnd, lifetimeEnd } from './leases.ts'
export { LiveSessions, type Open } from './live.ts'
export type { CreateRequest } from './plan.ts'
export { Pool, poolLabel } from './pool.ts'
export { checkArgv, checkCount, checkEnv, requestLimits } from './request-limits.ts'
export { type ProviderFacts, SessionService } from './sessions.ts'
export type { Used } from './use.ts'
