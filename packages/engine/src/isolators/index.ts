export { DockerIsolator, type DockerIsolatorOptions } from './docker/isolator.ts'
export type * from './isolator.ts'
export { OciIsolator, type OciIsolatorOptions } from './oci/isolator.ts'
