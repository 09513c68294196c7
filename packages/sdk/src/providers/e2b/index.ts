export { type E2BCapabilities, e2bCapabilities } from './capabilities.ts'
export { type E2BProviderOptions, e2bOptionsOf } from './options.ts'
export { E2BProvider } from './provider.ts'
