import { recipeNames } from './recipes.ts'

/**
 * Returns the recipe for a name such as `sandbox-runtime:python`, or undefined for any other name. Until that image
 * is built, the image `host` replaces it, so configurations with these names work at once.
 */
export function runtimeRecipe(name: string): string | undefined {
  const recipe = /^sandbox-runtime:([a-z0-9-]+)$/.exec(name)?.[1]
  return recipe !== undefined && recipeNames().includes(recipe) ? recipe : undefined
}

/** Warns once per image that `host` replaces it. */
export class StandIns {
  readonly #told = new Set<string>()
  readonly #warn: (message: string) => void

  constructor(
    warn: (message: string) => void = (message) =>
      process.emitWarning(message, { code: 'SANDKASTEN_IMAGE_STAND_IN' }),
  ) {
    this.#warn = warn
  }

  tell(image: string, build: string): void {
    if (this.#told.has(image)) return
    this.#told.add(image)
    this.#warn(
      `The image ${image} is not built, so its sandboxes use this machine’s own programs (image host). To build it, run: ${build}`,
    )
  }
}
