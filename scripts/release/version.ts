import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { packages } from '../packages.ts'
import { root } from '../tools.ts'

/** All packages are released together, under one version. */
export const version = packages.find(({ name }) => name === 'sdk')!.manifest.version

const crates = ['runner', 'gateway'] as const

/** Every package has the same version, depends on exactly that version of the others, and it has no tag yet. */
export function checkVersions(): number {
  const problems = packages.flatMap(({ name, manifest }) => [
    ...(manifest.version === version ? [] : [`${name} has version ${manifest.version}`]),
    ...Object.entries({ ...manifest.dependencies, ...manifest.optionalDependencies })
      .filter(([other, wanted]) => isOurs(other) && wanted !== version)
      .map(([other, wanted]) => `${name} depends on ${other} ${wanted}`),
  ])
  for (const crate of crates)
    if (!readFileSync(path.join(root, crate, 'Cargo.toml'), 'utf8').includes(`\nversion = "${version}"`))
      problems.push(`${crate}/Cargo.toml has another version`)
  const tags = execFileSync('git', ['tag', '--list', `v${version}`], { cwd: root, encoding: 'utf8' })
  if (tags.trim() !== '') problems.push(`the tag v${version} exists already`)
  for (const problem of problems) console.error(`Expected version ${version} everywhere, but ${problem}.`)
  if (problems.length > 0) console.error('Set it with: npm run release -- --set-version VERSION')
  else console.log(`${packages.length} packages, version ${version}`)
  return problems.length > 0 ? 1 : 0
}

export function setVersion(next: string): void {
  for (const { folder } of packages) {
    const file = path.join(folder, 'package.json')
    const manifest = JSON.parse(readFileSync(file, 'utf8'))
    manifest.version = next
    for (const kind of ['dependencies', 'optionalDependencies', 'devDependencies'])
      for (const name of Object.keys(manifest[kind] ?? {})) if (isOurs(name)) manifest[kind][name] = next
    writeFileSync(file, `${JSON.stringify(manifest, null, 2)}\n`)
  }
  for (const crate of crates) {
    const version = new RegExp(`(name = "sandkasten-${crate}"\nversion = ")[^"]+`)
    for (const name of ['Cargo.toml', 'Cargo.lock']) {
      const file = path.join(root, crate, name)
      writeFileSync(file, readFileSync(file, 'utf8').replace(version, `$1${next}`))
    }
  }
}

function isOurs(name: string): boolean {
  return packages.some(({ manifest }) => manifest.name === name)
}
