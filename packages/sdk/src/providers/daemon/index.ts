export { type DaemonCapabilities, daemonCapabilities } from './capabilities.ts'
export { DaemonProvider, type DaemonProviderOptions } from './provider.ts'
