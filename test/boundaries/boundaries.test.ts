import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { parseSync } from 'oxc-parser'
import { describe, expect, it } from 'vitest'
import { allReferences, propertyPaths } from './references.ts'
import { root, rules, violations } from './rules.ts'

describe('boundaries between rooms', () => {
  const references = allReferences()

  it('finds the imports and the property paths of the tree', () => {
    expect(references.imports.length).toBeGreaterThan(100)
    expect(references.properties.length).toBeGreaterThan(100)
  })

  it.each([
    ['services.sessions.context.store.get(id)', 'services.sessions.context'],
    ['const { store } = this.place.sessions.context', 'this.place.sessions.context.store'],
    ['const { context: { store } } = services().sessions', 'services.sessions.context.store'],
    ['const find = ({ sessions: { context } }) => context', 'sessions.context'],
    ['(await use()).sessions!.context?.store', 'use.sessions.context.store'],
  ])('reads the property paths of %s', (source, path) => {
    expect(propertyPaths(parseSync('example.ts', source).program as never)).toContain(path)
  })

  for (const rule of rules) {
    it(rule.name, () => {
      expect(violations(rule, references[rule.sees ?? 'imports'])).toEqual([])
    })
  }

  it('catches the example of each rule', () => {
    for (const rule of rules) expect(violations(rule, [rule.example]), rule.name).toHaveLength(1)
  })
})

describe('dependencies', () => {
  it('the SDK has no dependencies, and vendor SDKs are optional peers', () => {
    const manifest = JSON.parse(readFileSync(path.join(root, 'packages/sdk/package.json'), 'utf8'))
    const { dependencies, optionalDependencies, peerDependencies = {}, peerDependenciesMeta = {} } = manifest
    expect({ dependencies, optionalDependencies }).toEqual({})
    for (const name of Object.keys(peerDependencies))
      expect(peerDependenciesMeta[name], name).toEqual({ optional: true })
  })

  it('are pinned to exact versions in every package', () => {
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

  it('of every suite of tests are locked, without the places where they were downloaded', () => {
    for (const manifest of globSync('test/suites/*/package.json', { cwd: root })) {
      const lock = readFileSync(path.join(root, path.dirname(manifest), 'package-lock.json'), 'utf8')
      const { packages } = JSON.parse(lock) as { packages: Record<string, object> }
      const { dependencies } = JSON.parse(readFileSync(path.join(root, manifest), 'utf8'))
      expect(packages[''], manifest).toMatchObject({ dependencies })
      expect(lock, manifest).not.toContain('"resolved": "http')
    }
  })
})
