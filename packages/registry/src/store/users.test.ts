import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import {
  type DatabaseLocation,
  type HoldRow,
  type Operation,
  openStore,
  type SandboxRow,
  type Store,
} from './index.ts'
import { home, sandboxRow } from './testing/rows.ts'

describeOnEachDatabase('threads and holds', (place) => {
  let location: DatabaseLocation
  let store: Store
  beforeEach(async () => {
    location = await place()
    store = await openStore(location)
  })
  afterEach(() => store.close())

  const insert = async (given: Partial<SandboxRow> = {}) => {
    const row = sandboxRow(given)
    await store.sandboxes.insert(row)
    return row.id
  }
  let holds = 0
  const hold = (sandbox_id: string, given: Partial<HoldRow> = {}): HoldRow => ({
    id: `h${++holds}`,
    sandbox_id,
    thread_id: null,
    holder: 'me',
    beat: 0,
    purpose: 'shell',
    created_at: holds,
    ...given,
  })

  describe('threads', () => {
    it('are attached to one sandbox, and several to the same', async () => {
      const [a, b] = [await insert({ name: 'a' }), await insert({ name: 'b' })]
      expect(await store.threads.attach(home, 't1', a, 2)).toBe(true)
      expect(await store.threads.attach(home, 't2', a, 1)).toBe(true)
      expect(await store.threads.of([a, b])).toEqual(new Map([[a, ['t2', 't1']]]))
      expect(await store.threads.attach(home, 't1', b, 3)).toBe(true)
      expect((await store.threads.sandboxOf(home, 't1'))?.name).toBe('b')
      expect(await store.threads.of([a, b])).toEqual(
        new Map([
          [a, ['t2']],
          [b, ['t1']],
        ]),
      )
      expect(await store.threads.detach(home, 't1')).toBe(true)
      expect(await store.threads.detach(home, 't1')).toBe(false)
      expect(await store.threads.sandboxOf(home, 't1')).toBeUndefined()
      expect(await store.threads.of([])).toEqual(new Map())
    })

    it('of two scopes do not meet, even with the same id', async () => {
      const other = { app_id: 'bot', guild_id: 'g' }
      const [mine, theirs] = [await insert(), await insert(other)]
      await store.threads.attach(home, 't', mine, 1)
      await store.threads.attach(other, 't', theirs, 1)
      expect((await store.threads.sandboxOf(home, 't'))?.id).toBe(mine)
      for (const scope of [
        { app_id: 'bot', guild_id: '' },
        { app_id: '', guild_id: 'g' },
      ]) {
        expect(await store.threads.sandboxOf(scope, 't')).toBeUndefined()
        expect(await store.threads.detach(scope, 't')).toBe(false)
      }
      await store.threads.detach(other, 't')
      expect((await store.threads.sandboxOf(home, 't'))?.id).toBe(mine)
    })

    it('cannot be attached to a sandbox that is gone, and have printable ids', async () => {
      const id = await insert()
      await expect(store.threads.attach(home, 'a\nb', id, 1)).rejects.toMatchObject({
        code: 'invalid_argument',
      })
      await expect(store.threads.attach(home, 'x'.repeat(201), id, 1)).rejects.toMatchObject({
        code: 'invalid_argument',
      })
      const { lease_token } = (await store.sandboxes.take(id, 'h', 'destroy'))!
      await store.sandboxes.tombstone(id, lease_token)
      expect(await store.threads.attach(home, 't', id, 1)).toBe(false)
      expect(await store.threads.attach(home, 't', 'missing', 1)).toBe(false)
    })
  })

  describe('holds', () => {
    it('mark the sandbox as used, and end by release', async () => {
      const id = await insert({ last_used_at: 0 })
      const row = hold(id, { thread_id: 't', purpose: 'exec\nnpm test', created_at: 7_000 })
      expect(await store.holds.insert(row, { incarnation: 1 })).toBe(true)
      expect((await store.sandboxes.byId(id))?.last_used_at).toBe(7_000)
      expect(await store.holds.of([id])).toEqual([{ ...row, purpose: 'exec npm test' }])
      expect(await store.holds.all()).toHaveLength(1)
      expect(await store.holds.release(row.id)).toBe(true)
      expect(await store.holds.release(row.id)).toBe(false)
      expect(await store.holds.of([id])).toEqual([])
      expect(await store.holds.of([])).toEqual([])
    })

    it('are refused for another incarnation, and while an operation is about to stop the sandbox', async () => {
      const id = await insert()
      expect(await store.holds.insert(hold(id), { incarnation: 2 })).toBe(false)
      for (const [operation, expected] of [
        ['stop', false],
        ['snapshot', false],
        ['destroy', false],
        ['start', true],
        ['check', true],
      ] satisfies Array<[Operation, boolean]>) {
        const { lease_token } = (await store.sandboxes.take(id, 'h', operation))!
        expect(await store.holds.insert(hold(id)), operation).toBe(expected)
        await store.sandboxes.update(id, lease_token, {}, { release: 'done' })
      }
      expect(await store.holds.insert(hold('missing'))).toBe(false)
    })

    it('exclude an operation that stops the sandbox: one of the two sees the other', async () => {
      const other = await openStore(location)
      for (let round = 0; round < 20; round += 1) {
        const id = await insert({ name: `n${round}` })
        const stop = async () => {
          await other.sandboxes.take(id, 'h', 'stop')
          return (await other.holds.of([id])).length > 0
        }
        const [isHeld, isSeen] = await Promise.all([store.holds.insert(hold(id)), stop()])
        expect(isSeen).toBe(isHeld)
      }
      await other.close()
    })

    it('of dead processes are removed, unless they beat again', async () => {
      const id = await insert()
      const row = hold(id)
      await store.holds.insert(row)
      expect(await store.holds.beat([row.id, 'missing'])).toEqual([row.id])
      expect(await store.holds.removeDead(row)).toBe(false)
      expect(await store.holds.removeDead({ id: row.id, beat: 1 })).toBe(true)
      expect(await store.holds.beat([row.id])).toEqual([])
      expect(await store.holds.beat([])).toEqual([])
    })

    it('go with the sandbox', async () => {
      const id = await insert()
      await store.holds.insert(hold(id))
      const { lease_token } = (await store.sandboxes.take(id, 'h', 'destroy'))!
      await store.sandboxes.tombstone(id, lease_token)
      expect(await store.holds.all()).toEqual([])
    })
  })
})
