export type { LocalCapabilities } from './capabilities.ts'
export type { LocalDriver } from './driver.ts'
export type { LocalProviderOptions } from './options.ts'
export { LocalProvider, localDriver } from './provider.ts'
