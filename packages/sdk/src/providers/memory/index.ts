export { type Clock, realClock } from '../../shared/clock.ts'
export type { MemoryCapabilities } from './capabilities.ts'
export { ManualClock } from './clock.ts'
export type {
  ChildOptions,
  ChildProcess,
  CommandContext,
  CommandHandler,
  CommandMatcher,
  OutputWriter,
  RecordedCall,
} from './commands.ts'
export type { Fault, FaultPoint, FaultRule } from './faults.ts'
export type { MemoryProviderOptions } from './options.ts'
export { MemoryProvider } from './provider.ts'
export type { ShellHandler, ShellIo, ShellState } from './shell.ts'
