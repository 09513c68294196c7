import { expect, it } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { aheadMs, openStore, type Store } from './index.ts'
import { sandboxRow } from './testing/rows.ts'

const now = 1_800_000_000_000
const hour = 60 * 60_000

describeOnEachDatabase('due rows', (place) => {
  const withRows = async (work: (store: Store) => Promise<void>) => {
    const store = await openStore(await place())
    const rows = [
      { name: 'late', due_at: now },
      { name: 'later', due_at: now - 1 },
      { name: 'not-yet', due_at: now + 1 },
      { name: 'never', due_at: null },
      { name: 'busy', due_at: now, operation: 'stop', lease_holder: '{}' },
      { name: 'unfinished', due_at: now, operation: 'stop' },
      { name: 'elsewhere', due_at: now, provider: 'local' },
      // Written before the clock was set back.
      { name: 'frozen', due_at: now + 24 * hour, last_used_at: now + aheadMs + 1 },
      { name: 'tried', due_at: now + 30_000, last_used_at: now + 24 * hour },
      { name: 'waiting', due_at: now + 24 * hour, last_used_at: now + aheadMs },
    ] as const
    for (const row of rows) await store.sandboxes.insert(sandboxRow(row))
    await work(store)
    await store.close()
  }

  it('are found by provider, the earliest first', () =>
    withRows(async ({ due }) => {
      const memory = { provider: 'memory', credentials_id: null }
      expect(await due.providers(now)).toHaveLength(2)
      expect(await due.providers(now)).toContainEqual({ provider: 'local', credentials_id: null })
      expect((await due.of(memory, now)).map(({ name }) => name)).toEqual(['later', 'late', 'frozen'])
      expect((await due.of(memory, now, 1)).map(({ name }) => name)).toEqual(['later'])
      expect(await due.of({ ...memory, credentials_id: 'c' }, now)).toEqual([])
    }))

  it('tell the next time, operations in progress, and all providers', () =>
    withRows(async ({ due, sandboxes }) => {
      expect(await due.next(now)).toBe(now + 1)
      expect(await due.next(now + 48 * hour)).toBeUndefined()
      expect((await due.unfinished()).map(({ name }) => name).sort()).toEqual(['busy', 'unfinished'])
      expect(await due.allProviders()).toHaveLength(2)
      expect(await sandboxes.byIds([])).toEqual([])
    }))
})
