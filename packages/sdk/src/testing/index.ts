/** The conformance kit: every behaviour of the contract, for any provider, with or without a test runner. */
export { behaviours } from './behaviours/index.ts'
export { volumeBehaviours } from './behaviours/volumes.ts'
export type { Command, CommandKit, OptionalProgram } from './command-kit.ts'
export { conformance, type TestRunner } from './conformance.ts'
export { memoryCommands, memoryEgress } from './memory-commands.ts'
export { type PosixCommandsOptions, posixCommands } from './posix-commands.ts'
export { type BehaviourResult, type ConformanceReport, runConformance } from './run.ts'
export {
  type Behaviour,
  type ConformanceOptions,
  defaultLimits,
  type EgressTargets,
  type Limits,
  type NetworkTarget,
} from './types.ts'
export {
  runVolumeBehaviour,
  type VolumeBehaviour,
  type VolumeConformanceOptions,
  type VolumesUnderTest,
  type VolumeTrial,
  volumeConformance,
} from './volumes.ts'
