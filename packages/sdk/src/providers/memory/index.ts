export { type Clock, realClock } from '../../shared/calls/clock.ts'
export type { MemoryCapabilities } from './capabilities.ts'
export type { Fault, FaultPoint, FaultRule } from './faults.ts'
export { ManualClock } from './machine/clock.ts'
export type {
  ChildOptions,
  ChildProcess,
  CommandContext,
  CommandHandler,
  CommandMatcher,
  OutputWriter,
  RecordedCall,
} from './machine/commands.ts'
export type { MemoryProviderOptions } from './options.ts'
export { MemoryProvider } from './provider.ts'
export type { ShellHandler, ShellIo, ShellState } from './shell.ts'
