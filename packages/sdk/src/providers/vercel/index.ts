export { type VercelCapabilities, vercelCapabilities } from './capabilities.ts'
export { type OnSandkastenOptions, onSandkasten } from './on-sandkasten.ts'
export { type VercelProviderOptions, vercelOptionsOf } from './options.ts'
export { VercelProvider } from './provider.ts'
