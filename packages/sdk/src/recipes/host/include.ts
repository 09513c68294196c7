import { lstat } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { mapLimit } from '../../shared/calls/map-limit.ts'
import { invalid } from '../checks.ts'
import { isSafePath } from '../paths.ts'

/** Validates the `include` option. Returns normalized relative paths that exist. */
export async function checkInclude(projectDir: string, include: unknown): Promise<string[]> {
  if (include === undefined) return []
  if (!Array.isArray(include)) throw invalid('`include` must be an array of paths relative to projectDir.')
  return mapLimit(include, 8, async (path: unknown) => {
    const clean = typeof path === 'string' ? posix.normalize(path).replace(/\/$/, '') : ''
    if (!isSafePath(clean))
      throw invalid(`\`include\` has ${JSON.stringify(path)}, which is not a path inside the project.`)
    const there = await lstat(join(projectDir, clean)).catch(() => undefined)
    if (!there)
      throw invalid(
        `\`include\` has ${JSON.stringify(path)}, which does not exist.`,
        'Remove it from include, or create it first.',
      )
    return clean
  })
}

export async function includedHere(
  include: readonly string[],
  prefix: string,
  nested: ReadonlySet<string>,
  list: (paths: string[]) => Promise<string[]>,
): Promise<string[]> {
  const here = include
    .filter((path) => path.startsWith(prefix) && path.length > prefix.length)
    .map((path) => path.slice(prefix.length))
    .filter((path) => ![...nested].some((name) => path === name || path.startsWith(`${name}/`)))
  return here.length === 0 ? [] : list(here)
}
