import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { SandboxError } from '@sandkasten/sdk'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { IdRanges, RANGE_SIZE } from './id-ranges.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ids-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const ranges = (count: number) => ({ folder, first: 0x10000000, last: 0x10000000 + count * RANGE_SIZE - 1 })

it('hands out each range once, fails when all are taken, and frees a range only for its owner', () => {
  const [one, two] = [new IdRanges(ranges(3)), new IdRanges(ranges(3))]
  const taken = [one.take('a'), two.take('b'), one.take('c')]
  expect(new Set(taken).size).toBe(3)
  expect(taken.every((first) => (first - 0x10000000) % RANGE_SIZE === 0)).toBe(true)
  expect(() => two.take('d')).toThrow(expect.toSatisfy((error) => SandboxError.is(error, 'quota_exceeded')))
  two.free(taken[0]!, 'somebody else')
  expect(() => two.take('d')).toThrow(SandboxError)
  two.free(taken[0]!, 'a')
  expect(two.take('d')).toBe(taken[0])
  expect([...one.owners().values()].sort()).toEqual(['b', 'c', 'd'])
})

it('never gives one range to two processes', async () => {
  const module = new URL('./id-ranges.ts', import.meta.url).href
  const script = `import { IdRanges } from ${JSON.stringify(module)}
    const ranges = new IdRanges(${JSON.stringify(ranges(200))})
    console.log(JSON.stringify(Array.from({ length: 50 }, (_, i) => ranges.take(process.pid + '-' + i))))`
  const args = ['--conditions=sandkasten-source', '--input-type=module-typescript', '-e', script]
  const runs = await Promise.all([1, 2, 3, 4].map(() => promisify(execFile)(process.execPath, args)))
  const all = runs.flatMap(({ stdout }) => JSON.parse(stdout) as number[])
  expect(all).toHaveLength(200)
  expect(new Set(all).size).toBe(200)
})

it('refuses a range that holds the host’s own users', () => {
  for (const first of [0, 1000, 65535])
    expect(() => new IdRanges({ folder, first, last: 2 ** 30 })).toThrow(SandboxError)
  expect(() => new IdRanges({ folder, first: 0xffff0000, last: 0xffffffff })).toThrow(SandboxError)
})

it('a range that another engine frees during a listing has no owner', async () => {
  const mine = new IdRanges(ranges(200))
  const first = mine.take('a')
  const module = new URL('./id-ranges.ts', import.meta.url).href
  const script = `import { IdRanges } from ${JSON.stringify(module)}
    const ranges = new IdRanges(${JSON.stringify(ranges(200))})
    for (let i = 0; i < 5000; i++) ranges.free(ranges.take('other'), 'other')`
  const args = ['--conditions=sandkasten-source', '--input-type=module-typescript', '-e', script]
  let over = false
  const other = promisify(execFile)(process.execPath, args).finally(() => {
    over = true
  })
  while (!over) {
    expect(mine.owners().get(first)).toBe('a')
    await new Promise(setImmediate)
  }
  await other
  expect([...mine.owners()]).toEqual([[first, 'a']])
})

it('reads the files of earlier versions', () => {
  const mine = new IdRanges(ranges(3))
  writeFileSync(join(folder, '10010000'), 'older')
  expect([...mine.owners()]).toEqual([[0x10010000, 'older']])
  expect([mine.holds(0x10010000, 'other'), mine.holds(0x10010000, 'older')]).toEqual([false, true])
  mine.free(0x10010000, 'older')
  expect([...mine.owners()]).toEqual([])
})
