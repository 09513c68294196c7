export * from '@sandkasten/runner-client'
export type { VolumeAdmin, VolumeInfo, VolumeMount } from '@sandkasten/sdk'
export type { EgressEventsOptions } from './egress/events.ts'
export type { HostOverrides } from './egress/host-facts.ts'
export type { SecretContext, SecretSource } from './egress/secrets.ts'
export type { EgressEvent, EgressStats, HostFacts } from './egress/wire.ts'
export { HIDDEN_IN_HOST, type HostImageOptions } from './images/host/hidden.ts'
export {
  type ImageConfig,
  type ImageLayers,
  type ImageProgress,
  type ImageRecord,
  ImageStore,
  type ImageStoreOptions,
  type ImportOptions,
  recipeNames,
} from './images/index.ts'
export { daemonsHere } from './isolators/docker/daemon/daemon.ts'
export { DockerIsolator, type DockerIsolatorOptions } from './isolators/docker/isolator.ts'
export { type DockerProfile, dockerProfile } from './isolators/docker/seccomp.ts'
export type {
  IsolatedSandbox,
  Isolator,
  IsolatorSpec,
  ProbeResult,
  SandboxEnd,
  SandboxStats,
} from './isolators/isolator.ts'
export { OciIsolator, type OciIsolatorOptions } from './isolators/oci/isolator.ts'
export { type RuntimeKind, runtimeKinds, versionOf } from './isolators/oci/launch/runtime.ts'
export type { IoLimit } from './isolators/oci/limits/io-limit.ts'
export type { OpenNetwork } from './isolators/open-network.ts'
export { type EngineCapabilities, engineCapabilities } from './provider/capabilities.ts'
export { decideIsolator, type EngineDecision } from './provider/decision.ts'
export type { EgressSettings } from './provider/egress-settings.ts'
export {
  EngineProvider,
  type EngineProviderOptions,
  imageStore,
  rootBelow,
} from './provider/engine-provider.ts'
export { locateRunner } from './provider/locate-runner.ts'
export { type EnginePlace, engineAt } from './provider/place.ts'
export {
  type EngineDefaults,
  type EngineOptions,
  engineDefaults,
  type FolderMount,
} from './provider/spec.ts'
