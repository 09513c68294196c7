import { SandboxError } from '@sandkasten/sdk'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { type DatabaseLocation, openStore, type SandboxRow, type Store } from './index.ts'
import { startChild } from './testing/children.ts'
import { failed, home, keyId, sandboxRow, sealed } from './testing/rows.ts'

describeOnEachDatabase('the registry’s sandboxes', (place) => {
  let location: DatabaseLocation
  let store: Store
  let clock = 5_000
  beforeEach(async () => {
    location = await place()
    store = await openStore(location, { now: () => clock })
    await store.facts.once('key_id', keyId)
  })
  afterEach(() => store.close())

  const insert = async (given: Partial<SandboxRow> = {}) => {
    const row = sandboxRow(given)
    await store.sandboxes.insert(row)
    return row
  }

  describe('names', () => {
    it('are unique among live rows of one app and guild', async () => {
      await insert()
      await expect(insert()).rejects.toMatchObject({ code: 'conflict', message: 'The name “demo” is taken.' })
      await insert({ guild_id: 'g' })
      await insert({ app_id: 'a' })
      await expect(insert({ app_id: 'a', channel_id: 'c' })).rejects.toMatchObject({ code: 'conflict' })
      expect(await store.sandboxes.names(home)).toEqual(['demo'])
    })

    it('are freed by a tombstone, which stays', async () => {
      const first = await insert({ env: sealed, opencode_password: sealed, due_at: 7, base_url: 'http://x' })
      const leased = (await store.sandboxes.take(first.id, 'holder', 'destroy'))!
      await store.threads.attach(home, 't2', first.id, 1)
      await store.threads.attach(home, 't1', first.id, 2)
      clock = 9_000
      const ended = await store.sandboxes.tombstone(first.id, leased.lease_token, { error_message: 'done' })
      expect(ended).toMatchObject({
        threads: ['t1', 't2'],
        row: {
          live: 0,
          status: 'destroyed',
          destroyed_at: 9_000,
          error_message: 'done',
          env: null,
          opencode_password: null,
          provider_sandbox_id: null,
          base_url: null,
          due_at: null,
          lease_holder: null,
          operation: null,
        },
      })
      expect(await store.threads.of([first.id])).toEqual(new Map())
      const second = await insert()
      expect((await store.sandboxes.byName(home, 'demo'))?.id).toBe(second.id)
      expect(await store.sandboxes.list(home)).toMatchObject([{ id: second.id }])
      const all = await store.sandboxes.list(home, { destroyed: true })
      expect(all.map(({ id }) => id).sort()).toEqual([first.id, second.id].sort())
      expect(await store.sandboxes.prune({ before: 9_000, most: 1 })).toBe(0)
      expect(await store.sandboxes.prune({ before: 9_001, most: 1 })).toBe(1)
      expect(await store.sandboxes.byId(first.id)).toBeUndefined()
      expect(await store.sandboxes.byId(second.id)).toBeDefined()
    })

    it('of destroyed sandboxes are kept in each scope up to a number, the last ones', async () => {
      const ids: string[] = []
      for (let at = 0; at < 3; at += 1)
        for (const guild_id of ['', 'other']) {
          const { id, lease_token } = await insert({
            guild_id,
            lease_token: 1,
            lease_holder: 'me',
            operation: 'create',
          })
          clock = 10_000 + at
          await store.sandboxes.tombstone(id, lease_token)
          ids.push(id)
        }
      expect(await store.sandboxes.prune({ before: 0, most: 2 })).toBe(2)
      for (const id of ids.slice(0, 2)) expect(await store.sandboxes.byId(id)).toBeUndefined()
      for (const id of ids.slice(2)) expect(await store.sandboxes.byId(id)).toBeDefined()
    })

    it('of failed creates can be used again, but not while someone works on the row', async () => {
      const first = await insert(failed)
      await store.threads.attach(home, 't', first.id, 1)
      await store.sandboxes.take(first.id, 'holder', 'check')
      await expect(insert()).rejects.toMatchObject({ code: 'conflict' })
      await store.sandboxes.update(first.id, 1, {}, { release: 'unfinished' })
      await expect(insert()).rejects.toMatchObject({ code: 'conflict' })
      const seen = (await store.sandboxes.byId(first.id))!
      await store.sandboxes.takeOver(first.id, 'holder', seen)
      await store.sandboxes.update(first.id, 2, {}, { release: 'done' })
      const second = await insert()
      expect(await store.sandboxes.byId(first.id)).toMatchObject({ live: 0, status: 'destroyed' })
      expect(await store.threads.sandboxOf(home, 't')).toBeUndefined()
      expect((await store.sandboxes.byName(home, 'demo'))?.id).toBe(second.id)
    })

    it('of failed rows that have a sandbox or a snapshot stay taken', async () => {
      await insert({ ...failed, provider_sandbox_id: 'x' })
      await expect(insert()).rejects.toMatchObject({ code: 'conflict' })
      await insert({ ...failed, name: 'other', snapshot_id: 's' })
      await expect(insert({ name: 'other' })).rejects.toMatchObject({ code: 'conflict' })
    })

    it('change by rename, and never to a taken one', async () => {
      const demo = await insert()
      await insert({ name: 'taken' })
      await expect(store.sandboxes.rename(demo.id, 'taken', 6_000)).rejects.toMatchObject({
        code: 'conflict',
        message: 'The name “taken” is taken.',
      })
      await expect(store.sandboxes.rename(demo.id, 'No good', 6_000)).rejects.toMatchObject({
        code: 'invalid_argument',
      })
      expect(await store.sandboxes.rename(demo.id, 'free', 6_000)).toBe(true)
      expect(await store.sandboxes.names(home)).toEqual(['free', 'taken'])
      expect(await store.sandboxes.rename('missing', 'x', 6_000)).toBe(false)
    })

    it('belong to one of two processes that create at once', async () => {
      const options = { count: 10, names: 'n', perGuild: 100 }
      const children = [startChild(location, 'insert', options), startChild(location, 'insert', options)]
      const [a, b] = (await Promise.all(children.map(({ result }) => result))) as string[][]
      for (let at = 0; at < 10; at += 1) expect([a![at], b![at]].sort()).toEqual(['conflict', 'inserted'])
      expect(await store.sandboxes.names(home)).toHaveLength(10)
    })
  })

  describe('limits', () => {
    it('hold for the guild and the channel, and do not count failed creates', async () => {
      const add = (name: string, given: Partial<SandboxRow> = {}) =>
        store.sandboxes.insert(sandboxRow({ name, ...given }), { perGuild: 3, perChannel: 1 })
      await add('broken', failed)
      await add('a', { channel_id: 'c' })
      await expect(add('b', { channel_id: 'c' })).rejects.toMatchObject({
        code: 'quota_exceeded',
        message: 'There are already 1 sandboxes in this channel.',
      })
      await add('b', { channel_id: 'd' })
      await add('c')
      await expect(add('d')).rejects.toMatchObject({ code: 'quota_exceeded', details: { limit: 3 } })
      await add('d', { guild_id: 'other' })
      expect(await store.sandboxes.names(home)).toEqual(['a', 'b', 'broken', 'c'])
    })

    it('hold for two processes that create at once', async () => {
      const children = ['a', 'b'].map((names) =>
        startChild(location, 'insert', { count: 20, names, perGuild: 25 }),
      )
      const codes = (await Promise.all(children.map(({ result }) => result))).flat() as string[]
      expect(codes.filter((code) => code === 'inserted')).toHaveLength(25)
      expect(codes.filter((code) => code === 'quota_exceeded')).toHaveLength(15)
      expect(await store.sandboxes.names(home)).toHaveLength(25)
    })

    it('keep the last twenty failed creates', async () => {
      for (let at = 0; at < 22; at += 1) await insert({ ...failed, name: `f${at}`, updated_at: 1_000 + at })
      const names = await store.sandboxes.names(home)
      expect(names).toHaveLength(21)
      expect(names).not.toContain('f0')
    })
  })

  describe('leases', () => {
    it('fence out earlier holders: their writes change nothing', async () => {
      const { id } = await insert()
      const old = (await store.sandboxes.take(id, 'first', 'start'))!
      expect(await store.sandboxes.take(id, 'second', 'stop')).toBeUndefined()
      const fresh = (await store.sandboxes.takeOver(id, 'second', old))!
      expect(fresh).toMatchObject({
        lease_token: old.lease_token + 1,
        lease_holder: 'second',
        operation: 'start',
      })
      const before = await store.sandboxes.byId(id)
      const token = old.lease_token
      expect(await store.sandboxes.renew(id, token)).toBe(false)
      expect(await store.sandboxes.update(id, token, { status: 'stopped' })).toBeUndefined()
      expect(await store.sandboxes.update(id, token, {}, { release: 'done' })).toBeUndefined()
      expect(await store.sandboxes.tombstone(id, token)).toBeUndefined()
      expect(await store.sandboxes.byId(id)).toEqual(before)
      await store.sandboxes.update(id, fresh.lease_token, {}, { release: 'done' })
      expect(await store.sandboxes.update(id, fresh.lease_token, { status: 'stopped' })).toBeUndefined()
      expect((await store.sandboxes.byId(id))?.status).toBe('running')
    })

    it('are taken over only in the state that was seen', async () => {
      const { id } = await insert()
      const seen = (await store.sandboxes.take(id, 'first', 'start'))!
      await store.sandboxes.renew(id, seen.lease_token)
      expect(await store.sandboxes.takeOver(id, 'second', seen)).toBeUndefined()
      const beaten = (await store.sandboxes.byId(id))!
      await store.sandboxes.update(id, seen.lease_token, {}, { operation: 'restore' })
      expect(await store.sandboxes.takeOver(id, 'second', beaten)).toBeUndefined()
      const written = (await store.sandboxes.byId(id))!
      await store.sandboxes.update(id, seen.lease_token, {}, { release: 'unfinished' })
      expect(await store.sandboxes.takeOver(id, 'second', written)).toBeUndefined()
      const released = (await store.sandboxes.byId(id))!
      expect(released).toMatchObject({ lease_holder: null, operation: 'restore' })
      expect(await store.sandboxes.take(id, 'third', 'stop')).toBeUndefined()
      const over = await Promise.all(
        ['a', 'b', 'c'].map((holder) => store.sandboxes.takeOver(id, holder, released)),
      )
      expect(over.filter(Boolean)).toHaveLength(1)
    })

    it('of a tombstone cannot be taken', async () => {
      const { id } = await insert()
      const { lease_token } = (await store.sandboxes.take(id, 'first', 'destroy'))!
      await store.sandboxes.tombstone(id, lease_token)
      expect(await store.sandboxes.take(id, 'second', 'start')).toBeUndefined()
      expect(await store.sandboxes.update(id, lease_token, { status: 'running' })).toBeUndefined()
      expect(await store.sandboxes.note(id, { last_used_at: 1 })).toBe(false)
      expect(await store.sandboxes.rename(id, 'other', 1)).toBe(false)
      const seen = (await store.sandboxes.byId(id))!
      expect(await store.sandboxes.takeOver(id, 'second', seen)).toBeUndefined()
    })
  })

  describe('what is stored', () => {
    it('has no control character and is bounded', async () => {
      const line = 'x'.repeat(201)
      for (const given of [
        { name: 'Demo' },
        { name: '' },
        { name: '-demo' },
        { name: 'a'.repeat(64) },
        { name: 'a\nb' },
        { label: 'a\u001b[31mb' },
        { label: line },
        { label: 'ü'.repeat(101) },
        { label: '\u202etxt' },
        { channel_id: '\ud800' },
        { provider_sandbox_id: 'a\0' },
        { directory: `/${'x'.repeat(4_096)}` },
        { settings: JSON.stringify({ image: 'x'.repeat(270_000) }) },
        { idle_stop_ms: 1.5 },
        { due_at: Number.NaN },
      ] satisfies Partial<SandboxRow>[])
        await expect(insert(given), JSON.stringify(given)).rejects.toMatchObject({ code: 'invalid_argument' })
      expect(await store.sandboxes.names(home)).toEqual([])
      await insert({ label: 'Grüße 👩‍💻', name: 'a.b_c-1' })
    })

    it('includes errors of providers, cut and without control characters', async () => {
      const { id } = await insert()
      const { lease_token } = (await store.sandboxes.take(id, 'h', 'start'))!
      const error_message = `\u001b]0;title\u0007bad\r\nline ${'é'.repeat(2_000)}\ud800`
      const row = (await store.sandboxes.update(id, lease_token, { error_message }))!
      expect(row.error_message).toMatch(/^ \]0;title bad {2}line é+…$/)
      expect(Buffer.byteLength(row.error_message!)).toBeLessThanOrEqual(2_000)
      expect(row.error_message!.length).toBeGreaterThan(950)
      expect(row.updated_at).toBe(clock)
    })

    it('needs credentials that exist', async () => {
      await expect(insert({ credentials_id: 'missing' })).rejects.toMatchObject({ code: 'unauthenticated' })
      expect(await store.sandboxes.names(home)).toEqual([])
    })
  })

  it('are listed by use, and filtered', async () => {
    await insert({ name: 'old', last_used_at: 1, channel_id: 'c', status: 'stopped' })
    await insert({ name: 'new', last_used_at: 2, provider: 'local' })
    await insert({ name: 'elsewhere', guild_id: 'g' })
    const names = async (...[filter]: [Parameters<Store['sandboxes']['list']>[1]?]) =>
      (await store.sandboxes.list(home, filter)).map(({ name }) => name)
    expect(await names()).toEqual(['new', 'old'])
    expect(await names({ status: ['stopped', 'failed'] })).toEqual(['old'])
    expect(await names({ provider: 'local' })).toEqual(['new'])
    expect(await names({ channelId: 'c' })).toEqual(['old'])
    expect(await names({ limit: 1 })).toEqual(['new'])
    expect((await store.sandboxes.allOf('memory')).map(({ name }) => name).sort()).toEqual([
      'elsewhere',
      'old',
    ])
  })

  it('throw only SandboxErrors, also after the store was closed', async () => {
    await store.close()
    const error = await store.sandboxes.names(home).catch((cause: unknown) => cause)
    expect(SandboxError.is(error)).toBe(true)
    store = await openStore(location)
  })
})
