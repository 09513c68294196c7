import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { root } from './tools.ts'

/** The parts of a package.json that the scripts read. */
export interface Manifest {
  readonly name: string
  readonly version: string
  readonly exports?: Readonly<Record<string, string | Readonly<Record<string, string>>>>
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly publishConfig?: { readonly os?: readonly string[]; readonly cpu?: readonly string[] }
}

export interface Package {
  /** The folder's name: `sdk`. */
  readonly name: string
  readonly folder: string
  readonly manifest: Manifest
}

/** All folders in `packages/`. All of them are published. */
export const packages: readonly Package[] = readdirSync(path.join(root, 'packages')).map((name) => {
  const folder = path.join(root, 'packages', name)
  return { name, folder, manifest: JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) }
})

/** The named packages (default: all) and their dependencies, each after its own dependencies. */
export function inOrder(names: readonly string[] = []): Package[] {
  const ordered: Package[] = []
  const visit = (one: Package): void => {
    if (ordered.includes(one)) return
    for (const dependency of dependenciesOf(one)) visit(dependency)
    if (!ordered.includes(one)) ordered.push(one)
  }
  for (const one of packages) if (names.length === 0 || names.includes(one.name)) visit(one)
  return ordered
}

export function dependenciesOf({ manifest }: Package): Package[] {
  const names = Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies })
  return packages.filter((one) => names.includes(one.manifest.name))
}
