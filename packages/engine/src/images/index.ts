export { type Recipe, readRecipe, recipeNames } from './build/recipes.ts'
export { runtimeRecipe, StandIns } from './build/runtime-image.ts'
export { type HostImage, hostImage } from './host/host.ts'
export type { ImageConfig, ImageRecord } from './record.ts'
export { isLoopback, parseReference, type Reference } from './reference.ts'
export {
  type ImageLayers,
  type ImageProgress,
  ImageStore,
  type ImageStoreOptions,
  type ImportOptions,
} from './store.ts'
