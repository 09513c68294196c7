export type { DaytonaCapabilities } from './capabilities.ts'
export type { DaytonaCreateOptions } from './create-params.ts'
export { DaytonaProvider, type DaytonaProviderOptions } from './provider.ts'
export type { DaytonaModule } from './sdk.ts'
