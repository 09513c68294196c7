/** The conformance kit: every behaviour of the contract, for any provider, with or without a test runner. */
export { behaviours } from './behaviours/index.ts'
export type { Command, CommandKit, OptionalProgram } from './command-kit.ts'
export { conformance, type TestRunner } from './conformance.ts'
export { memoryCommands } from './memory-commands.ts'
export { type PosixCommandsOptions, posixCommands } from './posix-commands.ts'
export { type BehaviourResult, type ConformanceReport, runConformance } from './run.ts'
export {
  type Behaviour,
  type ConformanceOptions,
  defaultLimits,
  type Limits,
  type ProviderUnderTest,
} from './types.ts'
