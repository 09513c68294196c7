import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { isComplete } from '../../scripts/suites.ts'

const suite = mkdtempSync(path.join(tmpdir(), 'sandkasten-suite-'))
afterAll(() => rmSync(suite, { recursive: true }))

it('a suite whose nested packages were removed is installed again', () => {
  const packages = ['node_modules/a', 'node_modules/a/node_modules/@b/c']
  for (const at of packages) {
    mkdirSync(path.join(suite, at), { recursive: true })
    writeFileSync(path.join(suite, at, 'package.json'), '{}')
  }
  expect(isComplete(suite)).toBe(false)
  const list = { packages: Object.fromEntries(packages.map((at) => [at, {}])) }
  writeFileSync(path.join(suite, 'node_modules/.package-lock.json'), JSON.stringify(list))
  expect(isComplete(suite)).toBe(true)
  rmSync(path.join(suite, 'node_modules/a/node_modules/@b/c'), { recursive: true })
  expect(isComplete(suite)).toBe(false)
})
