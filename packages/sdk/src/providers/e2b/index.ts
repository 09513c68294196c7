export { type E2BCapabilities, e2bCapabilities } from './capabilities.ts'
export { E2BProvider, type E2BProviderOptions, e2bOptionsOf } from './provider.ts'
