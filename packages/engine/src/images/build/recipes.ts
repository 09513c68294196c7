import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SandboxError } from '@sandkasten/sdk'
import { errnoOf, translate } from '@sandkasten/sdk/internal'
import { namesIn } from '../../read-files.ts'
import { nearest } from '../nearest.ts'
import { shown } from '../reference.ts'

/** A recipe of an image: packages of this machine's own distribution, and the settings of its sandboxes. */
export interface Recipe {
  readonly name: string
  readonly description: string
  readonly packages: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly workdir: string
}

/** The names of the recipes that come with Sandkasten. */
export function recipeNames(): string[] {
  const folder = recipesFolder()
  return namesIn(folder)
    .filter((name) => existsSync(join(folder, name, 'recipe.json')))
    .sort()
}

/** Reads a recipe by name, or by the path of a folder with a `recipe.json`. */
export function readRecipe(text: string, depth = 0): Recipe {
  const isPath = text.includes('/')
  const names = recipeNames()
  const [meant] = nearest(text, names)
  if (!isPath && !names.includes(text))
    throw new SandboxError('not_found', `Recipe “${shown(text)}” not found.`, {
      hint: `${meant ? `Did you mean ${meant}? ` : ''}Available recipes: ${names.join(', ')}. Or use a folder with a recipe.json: ./${shown(text)}`,
    })
  const json = read(join(isPath ? text : join(recipesFolder(), text), 'recipe.json'))
  if (depth > 8) throw wrong(text, 'extends')
  const below = json.extends === undefined ? undefined : readRecipe(String(json.extends), depth + 1)
  const { packages = [], env = {}, workdir = below?.workdir ?? '', description = '' } = json
  if (!isList(packages)) throw wrong(text, 'packages')
  if (
    typeof env !== 'object' ||
    env === null ||
    !Object.values(env).every((value) => typeof value === 'string')
  )
    throw wrong(text, 'env')
  if (typeof workdir !== 'string' || typeof description !== 'string') throw wrong(text, 'workdir')
  return {
    name: text.replace(/\/+$/, '').split('/').pop()!,
    description,
    packages: [...new Set([...(below?.packages ?? []), ...packages])].sort(),
    env: { ...below?.env, ...(env as Record<string, string>) },
    workdir,
  }
}

/** The recipes are at the root of a checkout, or inside a published package. */
function recipesFolder(): string {
  const place = import.meta.url.endsWith('.ts') ? '../../../../../images' : '../../../images'
  return fileURLToPath(new URL(place, import.meta.url))
}

function read(file: string): Record<string, unknown> {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch (error) {
    if (errnoOf(error) === undefined) throw wrong(file, 'JSON')
    throw translate(error, `Cannot read the recipe ${file}`)
  }
}

/** Packages become arguments of a program, so a name that looks like an option is rejected. */
function isList(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((name) => /^[a-z0-9][a-z0-9+.:-]*$/.test(String(name)))
}

const wrong = (recipe: string, field: string) =>
  new SandboxError('invalid_argument', `The recipe ${shown(recipe)} has no valid ${field}.`, {
    hint: 'Example: { "packages": ["git"], "env": { "NAME": "value" }, "workdir": "/workspace" }.',
  })
