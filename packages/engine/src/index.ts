export { DockerIsolator, type DockerIsolatorOptions } from './isolators/docker/docker.ts'
export { type DockerProfile, dockerProfile } from './isolators/docker/seccomp.ts'
export type {
  IsolatedSandbox,
  Isolator,
  IsolatorSpec,
  ProbeResult,
  SandboxEnd,
  SandboxStats,
} from './isolators/isolator.ts'
export { OciIsolator, type OciIsolatorOptions } from './isolators/oci/oci.ts'
export {
  type DockerCapabilities,
  dockerCapabilities,
  type EngineCapabilities,
  engineCapabilities,
} from './provider/capabilities.ts'
export {
  type EngineDecision,
  EngineProvider,
  type EngineProviderOptions,
} from './provider/engine-provider.ts'
export { locateRunner } from './provider/locate-runner.ts'
export { type EngineDefaults, type EngineOptions, engineDefaults } from './provider/spec.ts'
export * from './runner/index.ts'
