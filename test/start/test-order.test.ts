import { existsSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import type { TestSpecification, Vitest } from 'vitest/node'
import LongestFirst, { longest } from '../../scripts/test-order.ts'
import { root } from '../../scripts/tools.ts'

it('every listed file exists', () => {
  expect(longest.filter((file) => !existsSync(path.join(root, file)))).toEqual([])
  expect(new Set(longest).size).toBe(longest.length)
})

it('the listed files run first, in the order of the list', async () => {
  const project = { name: '', config: { isolate: true, sequence: { groupOrder: 0 } } }
  const cache = { getTestSpecificationResult: () => undefined }
  const sequencer = new LongestFirst({ cache } as unknown as Vitest)
  // Vitest alone starts the largest files first, and files that do not exist before all others.
  const files = ['test/start/test-order.test.ts', longest[1], 'test/no-such.test.ts', longest[0]]
  const specifications = files.map((file) => ({ moduleId: path.join(root, file), project }))
  const sorted = await sequencer.sort(specifications as unknown as TestSpecification[])
  expect(sorted.map(({ moduleId }) => path.relative(root, moduleId))).toEqual([
    longest[0],
    longest[1],
    'test/no-such.test.ts',
    'test/start/test-order.test.ts',
  ])
})
