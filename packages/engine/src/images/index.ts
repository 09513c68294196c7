export { type HostImage, hostImage } from './host.ts'
export { type Recipe, readRecipe, recipeNames } from './recipes.ts'
export type { ImageConfig, ImageRecord } from './record.ts'
export { isLoopback, parseReference, type Reference } from './reference.ts'
export { runtimeRecipe, StandIns } from './runtime-image.ts'
export {
  type ImageLayers,
  type ImageProgress,
  ImageStore,
  type ImageStoreOptions,
  type ImportOptions,
} from './store.ts'
