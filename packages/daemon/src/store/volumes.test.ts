import { afterEach, beforeEach, expect, it } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { Store } from './store.ts'
import type { SessionRow, VolumeRow } from './tables.ts'
import { project, sessionRow, storeOptions } from './testing/rows.ts'
import type { VolumesInUse } from './volumes.ts'

function volumeRow(changes: Partial<VolumeRow> = {}): VolumeRow {
  return {
    id: 'v',
    project_id: 'p',
    instance_id: 'i',
    name: 'data',
    state: 'ready',
    provider_name: `i.${changes.id ?? 'v'}`,
    limit_mb: 16,
    created_at: 1_800_000_000_000,
    ...changes,
  }
}

describeOnEachDatabase('volumes', (place) => {
  let store: Store
  beforeEach(async () => {
    store = await Store.open(storeOptions(await place()))
    await store.keys.insertProject(project)
  })
  afterEach(() => store.close())
  const insert = (row: SessionRow) => store.sessions.insert(row, { check: () => {} })

  it('keeps volumes, and a name is free as soon as its volume is being deleted', async () => {
    const room = () => {}
    expect(await store.volumes.insert(volumeRow({ state: 'creating' }), room)).toBe('created')
    expect(await store.volumes.get('p', 'data')).toBeUndefined()
    expect(await store.volumes.insert(volumeRow({ id: 'w' }), room)).toBe('name-taken')
    expect(await store.volumes.setState('v', ['ready'], 'lost')).toBe(false)
    expect(await store.volumes.setState('v', ['creating'], 'ready')).toBe(true)
    expect(await store.volumes.get('p', 'data')).toEqual(volumeRow())
    expect(await store.volumes.get('q', 'data')).toBeUndefined()
    const full = () => {
      throw new Error('full')
    }
    await expect(store.volumes.insert(volumeRow({ id: 'w', name: 'w' }), full)).rejects.toThrow('full')
    await expect(store.volumes.beginDelete('p', 'data', full)).rejects.toThrow('full')
    expect(await store.volumes.beginDelete('p', 'data', room)).toEqual(volumeRow())
    expect(await store.volumes.beginDelete('p', 'data', room)).toBeUndefined()
    expect(await store.volumes.list('p', { limit: 10 })).toEqual([])
    expect(await store.volumes.insert(volumeRow({ id: 'w', limit_mb: null }), room)).toBe('created')
    expect(await store.volumes.usage('p')).toEqual({ volumes: 2, limit_mb: 16 })
    expect((await store.volumes.unlimited('p')).map(({ id }) => id)).toEqual(['w'])
    expect((await store.volumes.ofInstance('i', ['deleting'])).map(({ id }) => id)).toEqual(['v'])
    await store.volumes.delete('v')
    expect((await store.volumes.ofInstance('i')).map(({ id }) => id)).toEqual(['w'])
  })

  it('finds the sessions that hold a volume by their status', async () => {
    const [v, w] = ['v', 'w'].map((id) => ({
      id,
      name: id,
      path: '/v',
      read_only: id === 'w',
      provider_name: id,
    }))
    await store.volumes.insert(volumeRow(), () => {})
    const volumes = JSON.stringify([v, w])
    await insert(sessionRow({ id: 'holder', volumes }))
    await insert(sessionRow({ id: 'none' }))
    await insert(sessionRow({ id: 'ended', volumes, live: 0, status: 'destroyed' }))
    let found: VolumesInUse | undefined
    const see = (now: VolumesInUse) => {
      found = now
    }
    await store.sessions.insert(sessionRow({ id: 'other', volumes, status: 'stopped' }), { volumes: see })
    expect(found).toEqual({ ready: new Set(['v']), writers: new Map([['v', 'holder']]) })
    for (const [status, starting, holds] of [
      ['creating', 0, true],
      ['running', 0, true],
      ['paused', 0, true],
      ['stopped', 0, false],
      ['stopped', 1, true],
      ['crashed', 0, false],
    ] as const) {
      await store.sessions.update('holder', undefined, { status, starting })
      expect((await store.volumes.writers('p')).has('v'), `${status} ${starting}`).toBe(holds)
    }
    // A session does not stand in its own way.
    await store.sessions.update('holder', undefined, { status: 'running', starting: 0 })
    await store.sessions.reserveStart((await store.sessions.get('holder'))!, { volumes: see })
    expect(found!.writers).toEqual(new Map())
    const users: string[] = []
    await store.volumes.beginDelete('p', 'data', (ids) => void users.push(...ids))
    expect(users.sort()).toEqual(['holder', 'other'])
  })
})
