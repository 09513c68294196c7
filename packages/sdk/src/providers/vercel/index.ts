export { type VercelCapabilities, vercelCapabilities } from './capabilities.ts'
export { VercelProvider, type VercelProviderOptions } from './provider.ts'
