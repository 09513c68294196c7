import { Database } from '@sandkasten/database'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { type DatabaseLocation, openStore, type Store } from './index.ts'
import type { Tables } from './tables.ts'
import { startChild } from './testing/children.ts'
import { keyId, providerRow, sandboxRow, sealed } from './testing/rows.ts'

describeOnEachDatabase('providers that were set up', (place) => {
  let location: DatabaseLocation
  let store: Store
  beforeEach(async () => {
    location = await place()
    store = await openStore(location)
    await store.facts.once('key_id', keyId)
  })
  afterEach(() => store.close())

  const defaults = async () =>
    (await store.providers.list())
      .filter(({ is_default }) => is_default === 1)
      .map(({ provider }) => provider)

  it('are stored once for each app, and found by id and by name', async () => {
    const row = await store.providers.upsert(providerRow({ label: 'team' }))
    expect(await store.providers.byId(row.id)).toEqual(row)
    expect(await store.providers.byProvider('', 'daytona')).toEqual(row)
    expect(await store.providers.byProvider('app', 'daytona')).toBeUndefined()
    await store.providers.upsert(providerRow({ app_id: 'app' }))
    await store.providers.upsert(providerRow({ provider: 'e2b' }))
    expect((await store.providers.list('')).map(({ provider }) => provider)).toEqual(['daytona', 'e2b'])
    expect(await store.providers.list()).toHaveLength(3)
    await store.providers.checked(row.id, 77)
    expect((await store.providers.byId(row.id))?.checked_at).toBe(77)
  })

  it('keep their id and their default when their credentials are replaced', async () => {
    const first = await store.providers.upsert(providerRow({ is_default: 1, created_at: 1 }))
    const second = await store.providers.upsert({
      ...first,
      api_key: `${sealed}B`,
      is_default: 0,
      created_at: 2,
    })
    expect(second).toEqual({ ...first, api_key: `${sealed}B` })
    await expect(store.providers.upsert(providerRow())).rejects.toMatchObject({ code: 'conflict' })
    expect(await store.providers.list()).toEqual([second])
  })

  it('are refused by the database itself: an app that is null, a second default, a second row of a provider', async () => {
    await store.providers.upsert(providerRow({ is_default: 1 }))
    const database = await Database.connect<Tables>(location)
    for (const given of [
      { app_id: null as never, provider: 'e2b' },
      { is_default: 1, provider: 'e2b' },
      { provider: 'daytona' },
    ]) {
      const inserted = database.db.insertInto('sandbox_providers').values(providerRow(given)).execute()
      await expect(inserted, JSON.stringify(given)).rejects.toThrow(/null|unique/i)
    }
    await database.close()
    expect(await store.providers.list()).toHaveLength(1)
  })

  it('have no control characters', async () => {
    await expect(store.providers.upsert(providerRow({ label: 'a\nb' }))).rejects.toMatchObject({
      code: 'invalid_argument',
    })
    expect(await store.providers.list()).toEqual([])
  })

  it('have at most one default for each app', async () => {
    await store.providers.upsert(providerRow({ is_default: 1 }))
    await store.providers.upsert(providerRow({ provider: 'e2b', is_default: 1 }))
    await store.providers.upsert(providerRow({ app_id: 'app', is_default: 1 }))
    expect(await defaults()).toEqual(['e2b', 'daytona'])
    expect((await store.providers.default(''))?.provider).toBe('e2b')
    expect(await store.providers.setDefault('', 'daytona')).toBe(true)
    expect((await store.providers.default(''))?.provider).toBe('daytona')
    expect(await store.providers.setDefault('', 'missing')).toBe(false)
    expect((await store.providers.default(''))?.provider).toBe('daytona')
    expect(await store.providers.setDefault('', undefined)).toBe(true)
    expect(await store.providers.default('')).toBeUndefined()
    expect((await store.providers.default('app'))?.provider).toBe('daytona')
  })

  it('have exactly one default after two processes chose it at once', async () => {
    const providers = ['daytona', 'e2b', 'vercel']
    for (const provider of providers) await store.providers.upsert(providerRow({ provider }))
    const children = [providers, providers.toReversed()].map((names) =>
      startChild(location, 'setDefault', { providers: names, rounds: 20 }),
    )
    await Promise.all(children.map(({ result }) => result))
    expect(await defaults()).toHaveLength(1)
  })

  it('are deleted only by force while live sandboxes need them', async () => {
    const { id } = await store.providers.upsert(providerRow())
    const sandbox = sandboxRow({ credentials_id: id })
    await store.sandboxes.insert(sandbox)
    await expect(store.providers.delete(id)).rejects.toMatchObject({
      code: 'conflict',
      details: { sandboxes: ['demo'] },
    })
    const { lease_token } = (await store.sandboxes.take(sandbox.id, 'h', 'destroy'))!
    await store.sandboxes.tombstone(sandbox.id, lease_token)
    expect(await store.providers.delete(id)).toBe(true)
    expect(await store.providers.delete(id)).toBe(false)
    const again = await store.providers.upsert(providerRow())
    await store.sandboxes.insert({ ...sandboxRow(), credentials_id: again.id })
    expect(await store.providers.delete(again.id, { force: true })).toBe(true)
    expect(await store.sandboxes.allOf('memory')).toMatchObject([{ credentials_id: again.id }])
  })

  it('are not deleted under a sandbox that is created at the same time', async () => {
    const other = await openStore(location)
    for (let round = 0; round < 20; round += 1) {
      const { id } = await store.providers.upsert(providerRow())
      const [created, deleted] = await Promise.allSettled([
        store.sandboxes.insert(sandboxRow({ name: `n${round}`, credentials_id: id })),
        other.providers.delete(id),
      ])
      expect([created.status, deleted.status].sort()).toEqual(['fulfilled', 'rejected'])
      await store.providers.delete(id, { force: true })
    }
    await other.close()
  })
})
