export { DockerIsolator, type DockerIsolatorOptions } from './docker/docker.ts'
export type * from './isolator.ts'
export { OciIsolator, type OciIsolatorOptions } from './oci/oci.ts'
