import { expect, it } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { openStore } from './index.ts'
import type { ThreadRow } from './tables.ts'
import type { NewTurn } from './turns.ts'

const thread = (thread_id: string, more: Partial<ThreadRow> = {}): Omit<ThreadRow, 'app_id'> => ({
  ...{
    thread_id,
    guild_id: 'g1',
    channel_id: 'c1',
    title: 'T',
    state: 'pending',
    choice: '{}',
    sandbox: null,
  },
  ...{
    fork_snapshot: null,
    incarnation: null,
    mode: null,
    session_id: null,
    directory: null,
    base_commit: null,
  },
  ...{
    model: null,
    created_by: 'u1',
    error_message: null,
    error_hint: null,
    due: 0,
    created_at: 1,
    updated_at: 1,
  },
  ...more,
})
const turn = (id: string, message_id: string, more: Partial<NewTurn> = {}): NewTurn => ({
  ...{
    id,
    thread_id: 't1',
    message_id,
    state: 'queued',
    is_final: 0,
    is_aborted: 0,
    text: 'hi',
    files: '[]',
  },
  ...{ by_id: 'u1', by_name: 'Ann', agent_message_id: null, ending: null, model: null, cost_micro_usd: null },
  ...{ created_at: 1, started_at: null, ended_at: null },
  ...more,
})
const limits = { perUser: 2, perGuild: 10 }

describeOnEachDatabase('the store of threads', (place) => {
  it('keeps a thread and a message once, in order, and within the limits', async () => {
    const store = await openStore(await place(), 'bot')
    expect(await store.threads.insert(thread('t1'), limits, turn('a', 'm1'))).toMatchObject({ isNew: true })
    expect(await store.threads.insert(thread('t1'), limits, turn('b', 'm1'))).toMatchObject({ isNew: false })
    await store.threads.insert(thread('t2'), limits)
    await expect(store.threads.insert(thread('t3'), limits)).rejects.toMatchObject({ code: 'quota_exceeded' })
    await store.threads.insert(thread('t4', { created_by: 'u2' }), limits)
    expect(await store.turns.insert(turn('c', 'm1'), 3)).toBe('known')
    expect(await store.turns.insert(turn('c', 'm2'), 3)).toBe('queued')
    const both = await Promise.allSettled(['m3', 'm4'].map((id) => store.turns.insert(turn(id, id), 3)))
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect((await store.turns.open('t1')).map(({ seq }) => seq)).toEqual([1, 2, 3])
    expect(await store.turns.openThreads()).toEqual([{ threadId: 't1', open: 3, aborted: 0 }])
    await store.turns.abort('t1')
    expect(await store.turns.openThreads()).toEqual([{ threadId: 't1', open: 3, aborted: 3 }])
    await store.close()
  })

  it('separates apps', async () => {
    const where = await place()
    const [one, two] = [await openStore(where, 'one'), await openStore(where, 'two')]
    await one.threads.insert(thread('t1', { channel_id: 'mine' }), limits, turn('a', 'm1'))
    expect(await two.threads.get('t1')).toBeUndefined()
    expect(await two.turns.openThreads()).toEqual([])
    await two.threads.insert(thread('t1'), limits, turn('b', 'm1'))
    expect(await one.threads.get('t1')).toMatchObject({ channel_id: 'mine' })
    await one.close()
    await two.close()
  })

  it('reserves the same nonce each time, and short enough for chats', async () => {
    const store = await openStore(await place(), 'bot')
    const first = await store.posts.reserve('answer', 0)
    expect(first.nonce).toMatch(/^[\w-]{22}$/)
    expect(await store.posts.reserve('answer', 0)).toEqual({ nonce: first.nonce, postId: undefined })
    await store.posts.sent('answer', 0, 'p1')
    expect(await store.posts.reserve('answer', 0)).toEqual({ nonce: first.nonce, postId: 'p1' })
    const second = await store.posts.reserve('answer', 1)
    expect(await store.posts.list('answer')).toEqual([
      { index: 0, nonce: first.nonce, postId: 'p1' },
      { index: 1, nonce: second.nonce, postId: undefined },
    ])
    await store.posts.removed('answer', 1)
    expect((await store.posts.reserve('answer', 1)).nonce).not.toBe(second.nonce)
    await store.close()
  })

  it('fences out a worker whose lease was taken', async () => {
    const store = await openStore(await place(), 'bot')
    await store.threads.insert(thread('t1'), limits, turn('a', 'm1'))
    const old = (await store.workers.take('first', await store.workers.get()))!
    await store.turns.update('a', { state: 'working' }, old)
    const seen = await store.workers.get()
    const token = (await store.workers.take('second', seen))!
    expect(await store.workers.take('third', seen)).toBeUndefined()
    await expect(store.turns.update('a', { state: 'done' }, old)).rejects.toMatchObject({ code: 'conflict' })
    await expect(store.threads.update('t1', { title: 'x' }, 2, { token: old })).rejects.toMatchObject({
      code: 'conflict',
    })
    expect(await store.workers.beat(old)).toBe(false)
    await store.turns.update('a', { state: 'done' }, token)
    expect(await store.turns.get('a')).toMatchObject({ state: 'done' })
    await store.close()
  })

  it('makes one message of a due schedule', async () => {
    const store = await openStore(await place(), 'bot')
    await store.threads.insert(thread('t1'), limits)
    const schedule = { id: 's1', thread_id: 't1', text: 'later', due_at: 100, every_ms: null, created_at: 1 }
    await store.schedules.insert(schedule, 1)
    await store.schedules.insert(schedule, 1)
    await expect(store.schedules.insert({ ...schedule, id: 's2' }, 1)).rejects.toMatchObject({
      code: 'quota_exceeded',
    })
    expect(await store.schedules.fire(99, 5)).toEqual([])
    expect(await store.schedules.fire(100, 5)).toEqual(['t1'])
    expect(await store.schedules.fire(100, 5)).toEqual([])
    expect(await store.turns.open('t1')).toMatchObject([{ text: 'later', by_id: 'schedule' }])
    await store.schedules.insert({ ...schedule, id: 's3', every_ms: 50 }, 1)
    expect(await store.schedules.fire(1000, 5)).toEqual(['t1'])
    expect(await store.schedules.list('t1')).toMatchObject([{ id: 's3', due_at: 1025 }])
    expect(await store.schedules.fire(1025, 5)).toEqual(['t1'])
    expect(await store.schedules.remove('t2', 's3')).toBe(false)
    expect(await store.schedules.remove('t1', 's3')).toBe(true)
    expect(await store.schedules.fire(9999, 5)).toEqual([])
    await store.close()
  })

  it('bounds texts, and refuses ids that cannot be printed', async () => {
    const store = await openStore(await place(), 'bot')
    await store.threads.insert(thread('t1', { title: `a\u202eb\n${'x'.repeat(1_000)}` }), limits)
    const { title } = (await store.threads.get('t1'))!
    expect(title.startsWith('a b x')).toBe(true)
    expect(Buffer.byteLength(title)).toBeLessThanOrEqual(400)
    await expect(store.threads.insert(thread('t\u001b2'), limits)).rejects.toMatchObject({
      code: 'invalid_argument',
    })
    await store.turns.insert(turn('a', 'm1', { text: 'one\ntwo\0' }), 5)
    expect(await store.turns.get('a')).toMatchObject({ text: 'one\ntwo' })
    await store.close()
  })
})
