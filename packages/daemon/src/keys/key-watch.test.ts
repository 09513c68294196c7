import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { KeyWatch } from './key-watch.ts'

const caller = (keyId: string) => ({ projectId: 'p', keyId, scopes: [], requestId: 'r' })

describe('a long response', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  it('ends with its key, and others continue', async () => {
    const valid = new Set(['a', 'b'])
    const watch = new KeyWatch(async ({ keyId }) => valid.has(keyId))
    const [first, second, other] = [
      watch.enter(caller('a')),
      watch.enter(caller('a')),
      watch.enter(caller('b')),
    ]
    await watch.look()
    expect(first.signal.aborted).toBe(false)
    valid.delete('a')
    // The key was revoked by another process, or has expired.
    await vi.advanceTimersByTimeAsync(5_000)
    expect([first, second, other].map(({ signal }) => signal.aborted)).toEqual([true, true, false])
    expect(first.signal.reason).toMatchObject({ code: 'unauthenticated' })
    other.leave()
    expect(vi.getTimerCount()).toBe(0)
  })

  it('continues while the database is away', async () => {
    const watch = new KeyWatch(() => Promise.reject(new Error('The database is away.')))
    const { signal, leave } = watch.enter(caller('a'))
    await vi.advanceTimersByTimeAsync(20_000)
    expect(signal.aborted).toBe(false)
    leave()
  })
})
