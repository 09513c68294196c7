import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { type DatabaseLocation, openStore, type Store } from '../store/index.ts'
import type { Tasks } from '../store/testing/child.ts'
import { type Child, startChild } from '../store/testing/children.ts'
import { sandboxRow } from '../store/testing/rows.ts'
import { BeatWatch, Leases } from './index.ts'

describeOnEachDatabase('leases of several processes', (place) => {
  let location: DatabaseLocation
  let store: Store
  let folder: string
  let witness: string
  let children: Child[]
  const id = 'one'
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'sk-leases-'))
    witness = path.join(folder, 'working')
    location = await place()
    store = await openStore(location)
    children = []
    await store.sandboxes.insert(sandboxRow({ id, incarnation: 0 }))
  })
  afterEach(async () => {
    for (const child of children) await child.kill()
    await store.close()
    await rm(folder, { recursive: true, force: true })
  })

  const start = <Name extends keyof Tasks>(task: Name, options: Tasks[Name]) => {
    const child = startChild(location, task, options)
    children.push(child)
    return child
  }

  it('have one holder at a time, while their wall clocks jump', async () => {
    // Each waits long enough to look at the other's lease several times.
    const options = { id, times: 20, witness, workMs: 60, jumps: true }
    const both = [start('operate', options), start('operate', options)]
    await Promise.all(both.map(({ result }) => result))
    expect(await store.sandboxes.byId(id)).toMatchObject({
      incarnation: 40,
      lease_token: 40,
      lease_holder: null,
      operation: null,
    })
  })

  it('have one holder at a time, while processes are killed', async () => {
    const options = { id, times: 30, witness }
    let seed = 7
    const random = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647
      return seed % below
    }
    const steady = start('operate', options)
    for (let round = 0; round < 6; round += 1) {
      const victim = start('operate', { ...options, times: 100_000 })
      await victim.heard()
      await new Promise((resolve) => setTimeout(resolve, random(60)))
      await victim.kill()
    }
    await steady.result
    const leases = new Leases(store.sandboxes, new BeatWatch(), async () => {})
    await leases.operate(id, 'check', async ({ row }) => expect(row.incarnation).toBeGreaterThanOrEqual(36))
    await leases.close()
  })

  it('of a killed process are taken over at once', async () => {
    const child = start('hold', { id })
    await child.heard()
    const recovered: string[] = []
    const leases = new Leases(store.sandboxes, new BeatWatch(), async (_, operation) => {
      recovered.push(operation)
    })
    await expect(leases.operate(id, 'stop', async () => {}, { waitMs: 200 })).rejects.toMatchObject({
      code: 'conflict',
    })
    await child.kill()
    await leases.operate(id, 'stop', async () => {}, { waitMs: 1_000 })
    expect(recovered).toEqual(['start'])
    await leases.close()
  })
})
