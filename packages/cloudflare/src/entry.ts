/**
 * Cloudflare finds a class by its export name in the Worker's main module. Checks that the export exists, and that it
 * is the class of the sandbox file.
 */
import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { resolveSource, SDK } from './discover/class-chain.ts'
import { placeIn, readModule, type SourceModule } from './discover/module.ts'
import { dotRelative, posixRelative } from './paths.ts'
import type { PlannedSandbox } from './plan/plan.ts'
import { CloudflareSyncError, type Problem } from './problem.ts'

export const VIRTUAL_MODULE = 'virtual:sandkasten/sandboxes'

/** `main` as in the config, relative to `configDir`. A main outside the project is not checked. */
export function entryProblems(
  main: unknown,
  configDir: string,
  root: string,
  sandboxes: PlannedSandbox[],
): Problem[] {
  if (typeof main !== 'string' || sandboxes.length === 0) return []
  const path = resolve(configDir, main)
  if (!existsSync(path) || !/\.[cm]?[jt]sx?$/.test(path)) return []
  try {
    const module = readModule(path, root)
    return judge(module, exportedNames(module, root), configDir, root, sandboxes)
  } catch (error) {
    if (error instanceof CloudflareSyncError)
      return error.problems.map((one) => ({ ...one, severity: 'warning' }))
    throw error
  }
}

function judge(
  module: SourceModule,
  names: Set<string> | undefined,
  configDir: string,
  root: string,
  sandboxes: PlannedSandbox[],
): Problem[] {
  const { path } = module
  const problems: Problem[] = []
  const lines: string[] = []
  for (const sandbox of sandboxes) {
    const own = module.exports.get(sandbox.className)
    const local = own && !own.source ? module.classes.get(own.local) : undefined
    if (local) {
      const message = `class ${sandbox.className} is declared here and in ${sandbox.file}`
      const fix = `rename one, or write \`${exportLine(sandbox, path, configDir)}\` instead of this class`
      problems.push({
        severity: 'error',
        code: 'collision',
        message,
        place: placeIn(module, local.start),
        fix,
      })
    } else if (names && !names.has(sandbox.className)) lines.push(exportLine(sandbox, path, configDir))
  }
  if (lines.length > 0) {
    if (names && !names.has('ContainerProxy')) {
      lines.push(`export { ContainerProxy } from '${SDK}' // for outbound handlers and bucket mounts`)
    }
    const message = 'the Worker does not export these sandbox classes, so a deploy fails'
    const fix = `add to ${posixRelative(root, path)}:\n${lines.join('\n')}`
    problems.push({ severity: 'warning', code: 'not-exported', message, place: placeIn(module, 0), fix })
  }
  return problems
}

function exportLine(sandbox: PlannedSandbox, main: string, configDir: string): string {
  const target = dotRelative(dirname(main), resolve(configDir, sandbox.key)).replace(/\.ts$/, '')
  return `export { default as ${sandbox.className} } from '${target}'`
}

/** Undefined if a star export leads to a module that cannot be read: then missing exports are unknown. */
function exportedNames(module: SourceModule, root: string, depth = 0): Set<string> | undefined {
  const names = new Set(module.exports.keys())
  for (const star of module.stars) {
    if (star === SDK) {
      names.add('ContainerProxy')
      continue
    }
    const path = star.startsWith('.') ? resolveSource(resolve(dirname(module.path), star)) : undefined
    const inner = path && depth < 20 ? exportedNames(readModule(path, root), root, depth + 1) : undefined
    if (!inner) return undefined
    for (const name of inner) if (name !== 'default') names.add(name)
  }
  return names
}
