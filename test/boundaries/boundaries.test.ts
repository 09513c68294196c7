import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { parseSync } from 'oxc-parser'
import { describe, expect, it } from 'vitest'
import { type Import, rules, violations } from './rules.ts'

const root = path.resolve(import.meta.dirname, '../..')

describe('the doors between rooms', () => {
  const imports = allImports()

  it('sees the imports of the tree', () => {
    expect(imports.length).toBeGreaterThan(100)
  })

  for (const rule of rules) {
    it(rule.name, () => {
      expect(violations(rule, imports)).toEqual([])
    })
  }

  it('notices a violation of each rule', () => {
    for (const rule of rules) expect(violations(rule, [rule.example]), rule.name).toHaveLength(1)
  })
})

describe('dependencies', () => {
  it('the SDK has none; packages of vendors are named, each optional', () => {
    const manifest = JSON.parse(readFileSync(path.join(root, 'packages/sdk/package.json'), 'utf8'))
    const { dependencies, optionalDependencies, peerDependencies = {}, peerDependenciesMeta = {} } = manifest
    expect({ dependencies, optionalDependencies }).toEqual({})
    for (const name of Object.keys(peerDependencies))
      expect(peerDependenciesMeta[name], name).toEqual({ optional: true })
  })

  it('are pinned exactly, everywhere', () => {
    for (const file of [
      'package.json',
      ...globSync(['packages/*/package.json', 'test/suites/*/package.json'], { cwd: root }),
    ]) {
      const manifest = JSON.parse(readFileSync(path.join(root, file), 'utf8'))
      for (const [name, version] of Object.entries({
        ...manifest.dependencies,
        ...manifest.devDependencies,
        ...manifest.optionalDependencies,
      })) {
        expect(version, `${name} in ${file}`).toMatch(/^\d+\.\d+\.\d+$/)
      }
    }
  })
})

function allImports(): Import[] {
  const files = globSync('packages/*/src/**/*.ts', { cwd: root }).filter(
    (file) => !/\.(test|type-test)\.ts$|test-helper|test-kit/.test(file),
  )
  return files.flatMap((file) => {
    const from = file.replaceAll('\\', '/')
    const { module } = parseSync(file, readFileSync(path.join(root, file), 'utf8'))
    const written = [
      ...module.staticImports.map((found) => found.moduleRequest.value),
      ...module.staticExports.flatMap((found) =>
        found.entries.flatMap((entry) => entry.moduleRequest?.value ?? []),
      ),
    ]
    return written.map((specifier) => ({ from, to: resolve(from, specifier) }))
  })
}

/** A relative import as the file it names; anything else as it is written. */
function resolve(from: string, specifier: string): string {
  return specifier.startsWith('.') ? path.posix.join(path.posix.dirname(from), specifier) : specifier
}
