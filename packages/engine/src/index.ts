export * from '@sandkasten/runner-client'
export { HIDDEN_IN_HOST, type HostImageOptions } from './images/host-hidden.ts'
export {
  type ImageConfig,
  type ImageLayers,
  type ImageProgress,
  type ImageRecord,
  ImageStore,
  type ImageStoreOptions,
  type ImportOptions,
  parseReference,
  type Recipe,
  readRecipe,
  recipeNames,
} from './images/index.ts'
export { daemonsHere } from './isolators/docker/daemon.ts'
export { DockerIsolator, type DockerIsolatorOptions } from './isolators/docker/docker.ts'
export { type DockerProfile, dockerProfile } from './isolators/docker/seccomp.ts'
export type {
  IsolatedSandbox,
  Isolator,
  IsolatorSpec,
  LayeredDisks,
  ProbeResult,
  SandboxEnd,
  SandboxStats,
} from './isolators/isolator.ts'
export type { IoLimit } from './isolators/oci/io-limit.ts'
export { OciIsolator, type OciIsolatorOptions } from './isolators/oci/oci.ts'
export { type RuntimeKind, runtimeKinds, versionOf } from './isolators/oci/runtime.ts'
export type { OpenNetwork } from './isolators/open-network.ts'
export { type EngineCapabilities, engineCapabilities } from './provider/capabilities.ts'
export {
  type EngineDecision,
  EngineProvider,
  type EngineProviderOptions,
  imageStore,
  rootBelow,
} from './provider/engine-provider.ts'
export { locateRunner } from './provider/locate-runner.ts'
export {
  type EngineDefaults,
  type EngineOptions,
  engineDefaults,
  type FolderMount,
  type VolumeMount,
} from './provider/spec.ts'
export type { VolumeAdmin, VolumeInfo } from './volumes/volumes.ts'
