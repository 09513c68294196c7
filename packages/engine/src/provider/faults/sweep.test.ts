import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { readRecord, writeRecord } from '@sandkasten/sdk/internal'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { reasonToSkip } from '../../isolators/oci/testing/bench.ts'
import { EngineProvider } from '../engine-provider.ts'
import { leftoversOf } from '../test-helper.ts'

const root = await mkdtemp(path.join(tmpdir(), 'sandkasten-sweep-'))
afterAll(() => rm(root, { recursive: true, force: true }))
const skipped = await reasonToSkip()
const ids = path.join(root, 'ids')
const provider = new EngineProvider({ isolator: 'oci', root, oci: { ids: { folder: ids } } })

const place = path.join(root, 'sandboxes')
const dead = { pid: 2 ** 22 + 1, started: '1' }

/** Changes a record to the state that a killed process leaves. */
async function rewrite(sandboxId: string, changes: object): Promise<void> {
  const folder = path.join(place, sandboxId)
  await writeRecord(folder, { ...(await readRecord(folder))!, ...changes })
}

describe('sweep', () => {
  beforeEach(({ skip }) => {
    if (skipped) skip(skipped)
  })

  it.each([
    ['partly removed', { status: 'stopped', leaving: true }],
    ['partly created', { status: 'creating', creator: dead }],
  ])('removes a %s sandbox completely', async (_, changes) => {
    const { sandboxId } = await provider.create({ name: 'taken' })
    await rewrite(sandboxId, changes)
    if ('leaving' in changes) {
      await expect(provider.get(sandboxId)).rejects.toMatchObject({ code: 'not_found' })
      expect(await provider.list()).toEqual([])
    }
    expect(
      await new EngineProvider({ isolator: 'oci', root, oci: { ids: { folder: ids } } }).sweep(),
    ).toEqual([sandboxId])
    expect([readdirSync(place), readdirSync(ids), readdirSync(path.join(root, 'names'))]).toEqual([
      [],
      [],
      [],
    ])
    expect(leftoversOf(sandboxId)).toEqual([])
  })

  it('ends processes of a stopped sandbox whose starter was killed before it wrote the record', async () => {
    const sandbox = await provider.create()
    await rewrite(sandbox.sandboxId, { status: 'stopped' })
    await new EngineProvider({ isolator: 'oci', root, oci: { ids: { folder: ids } } }).sweep()
    expect(leftoversOf(sandbox.sandboxId)).toEqual([])
    expect(await provider.destroy(sandbox.sandboxId)).toBe(true)
  })

  it('cleans up after dead processes and leaves living ones alone', async () => {
    const stat = readFileSync('/proc/self/stat', 'utf8')
    const started = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
    const left = [`.${'a'.repeat(16)}.${dead.pid}-1`, `.${'b'.repeat(16)}.trashed`]
    const living = `.${'c'.repeat(16)}.${process.pid}-${started}`
    for (const name of [...left, living]) mkdirSync(path.join(place, name), { recursive: true })
    mkdirSync(ids, { recursive: true })
    writeFileSync(path.join(ids, '10000000'), path.join(place, 'd'.repeat(16), 'disk'))
    writeFileSync(path.join(ids, '10010000'), '/somebody/elses/sandboxes/x/disk')
    mkdirSync(path.join(root, 'names'), { recursive: true })
    writeFileSync(path.join(root, 'names', 'e'.repeat(64)), 'd'.repeat(16))
    await provider.sweep()
    expect(readdirSync(place)).toEqual([living])
    expect(readdirSync(ids)).toEqual(['10010000'])
    expect(existsSync(path.join(root, 'names', 'e'.repeat(64)))).toBe(false)
  })
})
