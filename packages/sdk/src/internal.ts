/**
 * For other packages of this repository. Node only, and not covered by semantic versioning: it may change in any
 * release. Use the other entries.
 */
export * from './folder/index.ts'
export { PortForwards } from './ports/index.ts'
