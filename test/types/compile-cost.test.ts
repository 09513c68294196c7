import { execFileSync } from 'node:child_process'
import path from 'node:path'
import { expect, it } from 'vitest'

const program = path.join(import.meta.dirname, 'compile-cost.type-test.ts')
const tsc = path.resolve(import.meta.dirname, '../../node_modules/.bin/tsc')
const options = ['--noEmit', '--strict', '--skipLibCheck', '--allowImportingTsExtensions', '--types', '']
const target = ['--target', 'es2024', '--lib', 'es2024,dom,esnext.disposable', '--module', 'nodenext']

/** The number of types, unlike time, is the same in every run. An intersection of conditional types doubles it often. */
it('a program on the interface makes the compiler create few types', () => {
  const args = [...options, ...target, '--singleThreaded', '--extendedDiagnostics', '--ignoreConfig', program]
  const report = execFileSync(tsc, args, { encoding: 'utf8' })
  const types = Number(/^Types: +(\d+)$/m.exec(report)?.[1])
  expect(types).toBeGreaterThan(100)
  expect(types).toBeLessThan(8000)
})
