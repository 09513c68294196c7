import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import type { DatabaseLocation } from '@sandkasten/database'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { BeatWatch, silentMs } from '../leases/index.ts'
import { openStore, type Store } from '../store/index.ts'
import { sandboxRow } from '../store/testing/rows.ts'
import { checkPurpose, Uses } from './uses.ts'

const elsewhere = JSON.stringify({ machine: 'another machine', pid: 1, startedAt: 1 })

describeOnEachDatabase('uses', (place) => {
  let location: DatabaseLocation
  let store: Store
  let steady: number
  let uses: Uses
  const row = sandboxRow()
  const children: ChildProcess[] = []

  beforeEach(async () => {
    location = await place()
    store = await openStore(location)
    await store.sandboxes.insert(row)
    steady = 0
    uses = usesOfProcess()
  })
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill('SIGKILL')
    await store.close()
  })
  const usesOfProcess = (beatMs?: number) =>
    new Uses(store.holds, new BeatWatch(() => steady), () => 5_000, beatMs === undefined ? {} : { beatMs })
  const begin = async (threadId?: string, purpose = 'agent') =>
    (await uses.begin({ sandboxId: row.id, threadId, purpose }, 1))!

  it('names thread, purpose, start and process of each use', async () => {
    const leave = await begin('t1', 'exec npm test')
    expect(await uses.of(row)).toEqual([
      { threadId: 't1', purpose: 'exec npm test', since: new Date(5_000), pid: process.pid },
    ])
    await leave()
    expect(await uses.of(row)).toEqual([])
  })

  it('leaves out the uses of the thread itself', async () => {
    await begin('t1')
    await begin('t2')
    await begin(undefined, 'shell')
    const others = await uses.of(row, { threadId: 't1' })
    expect(new Set(others.map(({ threadId }) => threadId))).toEqual(new Set(['t2', undefined]))
  })

  it('counts the uses of one thread, and ends with the last of them', async () => {
    const leaves = await Promise.all([begin('t1'), begin('t1'), begin('t1')])
    expect(await uses.of(row)).toHaveLength(1)
    await leaves[0]!()
    await leaves[0]!()
    await leaves[1]!()
    expect(await uses.of(row)).toHaveLength(1)
    await leaves[2]!()
    expect(await uses.of(row)).toHaveLength(0)
    await begin('t1')
    expect(await uses.of(row)).toHaveLength(1)
  })

  it('refuses earlier incarnations and sandboxes that are being stopped', async () => {
    expect(await uses.begin({ sandboxId: row.id, purpose: 'a' }, 7)).toBeUndefined()
    await store.sandboxes.take(row.id, '{}', 'stop')
    expect(await uses.begin({ sandboxId: row.id, purpose: 'a' }, 1)).toBeUndefined()
    expect(await store.holds.all()).toEqual([])
  })

  it('does not count a process that was killed', async () => {
    const child = await holder(location, row.id)
    children.push(child)
    expect(await uses.of(row)).toMatchObject([{ purpose: 'exec npm test', pid: child.pid }])
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(await uses.of(row)).toEqual([])
    expect(await store.holds.all()).toEqual([])
  })

  it('counts a process elsewhere until its beat has stood still for long enough', async () => {
    const hold = {
      id: 'h',
      sandbox_id: row.id,
      thread_id: null,
      holder: elsewhere,
      beat: 0,
      purpose: 'a',
      created_at: 1,
    }
    await store.holds.insert(hold)
    expect(await uses.of(row)).toHaveLength(1)
    steady += silentMs
    await store.holds.beat(['h'])
    expect(await uses.of(row)).toHaveLength(1)
    steady += silentMs
    expect(await uses.of(row)).toHaveLength(1)
    // A process that looks for the first time cannot know.
    expect(await usesOfProcess().of(row)).toHaveLength(1)
    steady += 1
    expect(await uses.of(row)).toHaveLength(0)
    expect(await store.holds.all()).toEqual([])
  })

  it('beats while it lives, and comes back if another machine took it for dead', async () => {
    uses = usesOfProcess(20)
    const leave = await begin('t1')
    const [first] = await store.holds.of([row.id])
    await expect.poll(async () => (await store.holds.of([row.id]))[0]?.beat).toBeGreaterThan(1)
    await store.holds.release(first!.id)
    await expect.poll(() => store.holds.of([row.id])).toMatchObject([{ id: first!.id }])
    await leave()
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(await store.holds.all()).toEqual([])
  })

  it('does not come back after a release that overtook the beat', async () => {
    uses = usesOfProcess(20)
    const leave = await begin('t1')
    const [first] = await store.holds.of([row.id])
    const insert = store.holds.insert.bind(store.holds)
    const comesBack = vi.spyOn(store.holds, 'insert').mockImplementationOnce(async (...args) => {
      await leave()
      return insert(...args)
    })
    await store.holds.release(first!.id)
    await expect.poll(() => comesBack.mock.settledResults.length).toBe(1)
    expect(comesBack.mock.settledResults[0]).toEqual({ type: 'fulfilled', value: true })
    await expect.poll(() => store.holds.all()).toEqual([])
    comesBack.mockRestore()
  })

  it('removes a row later that the database did not let it remove', async () => {
    uses = usesOfProcess(20)
    const leave = await begin('t1')
    const release = vi.spyOn(store.holds, 'release').mockRejectedValueOnce(new Error('away'))
    await leave()
    await expect.poll(() => store.holds.all()).toEqual([])
    release.mockRestore()
  })

  it('removes all rows of this process when it is closed', async () => {
    await Promise.all([begin('t1'), begin('t2')])
    await uses.close()
    expect(await store.holds.all()).toEqual([])
  })
})

it('bounds purposes', () => {
  expect(checkPurpose('  a\n\u001b[31mb ')).toBe('a [31mb')
  expect(() => checkPurpose('x'.repeat(201))).toThrow('1 to 200')
  expect(() => checkPurpose('\n')).toThrow('1 to 200')
})

async function holder(location: DatabaseLocation, id: string): Promise<ChildProcess> {
  const script = path.join(import.meta.dirname, 'testing/holder.ts')
  const child = fork(script, [JSON.stringify(location), id], { execArgv: ['--conditions=sandkasten-source'] })
  expect((await once(child, 'message'))[0]).toBe('held')
  return child
}
