export { type Clock, realClock } from '../../shared/clock.ts'
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
export { type MemoryCapabilities, MemoryProvider, type MemoryProviderOptions } from './provider.ts'
export type { ShellHandler, ShellIo, ShellState } from './shell.ts'
