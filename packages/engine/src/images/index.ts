export { recipeNames } from './build/recipes.ts'
export { runtimeRecipe, StandIns } from './build/runtime-image.ts'
export type { ImageConfig, ImageRecord } from './record.ts'
export {
  type ImageLayers,
  type ImageProgress,
  ImageStore,
  type ImageStoreOptions,
  type ImportOptions,
} from './store.ts'
