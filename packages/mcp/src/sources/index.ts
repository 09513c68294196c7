export { afterStart, hasEnded } from './ended.ts'
export { type HandleSourceOptions, handleSource } from './handle-source.ts'
export { type RegistrySourceOptions, registrySource } from './registry-source.ts'
export type {
  Incarnation,
  OpenSandbox,
  SandboxSource,
  SandboxState,
  StartedProcess,
  StateOptions,
  UseOptions,
} from './source.ts'
