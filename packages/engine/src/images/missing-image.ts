import { SandboxError } from '@sandkasten/sdk'
import { recipeNames } from './build/recipes.ts'
import { nearest } from './nearest.ts'
import { parseReference, repositoryOf, shown } from './reference.ts'

/** The error for an image that is not in the store. `known` are the names of the images that are. */
export function missingImage(text: string, known: readonly string[]): SandboxError {
  const { name, kind } = parseReference(text)
  const near = [...known.filter((one) => repositoryOf(one) === repositoryOf(name)), ...nearest(name, known)]
  const others = near.length > 0 ? ` Here are: ${[...new Set(near)].join(', ')}.` : ''
  return new SandboxError('not_found', `The image “${shown(text)}” is not on this machine.`, {
    hint: `${kind === 'registry' ? howToGet(name, shown(text)) : `Run: sandkasten image import ${shown(text)}`}${others}`,
    details: { image: name },
  })
}

function howToGet(name: string, text: string): string {
  const recipes = recipeNames()
  const repository = repositoryOf(name)
  if (repository === 'sandbox-runtime')
    return `Use ${recipes.map((recipe) => `sandbox-runtime:${recipe}`).join(', ')}, or an image of your own.`
  if (recipes.includes(name.replace(/:latest$/, '')))
    return `Run: sandkasten image build ${repository} (from Debian packages), or: sandkasten image pull ${text}`
  return `Run: sandkasten image pull ${text}. Or build one from a recipe: sandkasten image build FOLDER --name ${text}`
}
