export { type VercelCapabilities, vercelCapabilities } from './capabilities.ts'
export { vercelOptionsOf } from './credentials.ts'
export { type OnSandkastenOptions, onSandkasten } from './on-sandkasten.ts'
export { VercelProvider, type VercelProviderOptions } from './provider.ts'
