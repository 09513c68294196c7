export { type SpritesCapabilities, spritesCapabilities } from './capabilities.ts'
export { type SpritesProviderOptions, spritesOptionsOf } from './options.ts'
export { SpritesProvider } from './provider.ts'
export type { SpritesSdk } from './sdk.ts'
