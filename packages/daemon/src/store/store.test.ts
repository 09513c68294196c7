import { afterEach, beforeEach, expect, it } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { Store, type StoreOptions } from './store.ts'
import type { SessionRow } from './tables.ts'
import { project, sessionRow, storeOptions } from './testing/rows.ts'

describeOnEachDatabase('the store', (place) => {
  let store: Store
  let where: StoreOptions
  beforeEach(async () => {
    where = storeOptions(await place())
    store = await Store.open(where)
    await store.keys.insertProject(project)
  })
  afterEach(() => store.close())
  const insert = (row: SessionRow, check = () => {}) => store.sessions.insert(row, { check })

  it('keeps rows as they were written, also when opened again', async () => {
    const row = sessionRow({ cpu: 1.25, lifetime_ms: 5_000_000_000, cwd: '/a ü' })
    await insert(row)
    await store.close()
    store = await Store.open(where)
    expect(await store.sessions.get('aaaa')).toEqual(row)
    expect(await store.sessions.get('none')).toBeUndefined()
  })

  it('allows a name for one live session of a project only', async () => {
    await insert(sessionRow({ name: 'n' }))
    expect(await insert(sessionRow({ id: 'b', name: 'n' }))).toEqual({ kind: 'name-taken' })
    await store.sessions.update('aaaa', undefined, { live: 0, status: 'destroyed' })
    expect(await insert(sessionRow({ id: 'b', name: 'n' }))).toEqual({ kind: 'created' })
    expect(await insert(sessionRow({ id: 'c', name: null }))).toEqual({ kind: 'created' })
  })

  it('counts creates of one project one after another', async () => {
    const results = await Promise.allSettled(
      Array.from({ length: 12 }, (_, n) =>
        store.sessions.insert(sessionRow({ id: `s${n}` }), {
          check: ({ sessions }) => {
            if (sessions >= 5) throw new Error('full')
          },
        }),
      ),
    )
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(5)
    expect(await store.sessions.usage('p')).toEqual({
      sessions: 5,
      cpu: 2.5,
      mem_mb: 640,
      disk_mb: 0,
      unlimited_disks: 5,
    })
  })

  it('recognises a repeated create', async () => {
    const idempotency = { project_id: 'p', key: 'k', fingerprint: 'f', session_id: 'aaaa', created_at: 1 }
    const twice = (id: string) =>
      store.sessions.insert(sessionRow({ id }), {
        check: () => {},
        idempotency: { ...idempotency, session_id: id },
      })
    expect(await twice('aaaa')).toEqual({ kind: 'created' })
    expect(await twice('b')).toEqual({ kind: 'repeat', sessionId: 'aaaa', fingerprint: 'f' })
    expect(await store.sessions.get('b')).toBeUndefined()
    await store.sessions.forget('aaaa')
    expect(await twice('b')).toEqual({ kind: 'created' })
  })

  it('changes a status only from an expected one', async () => {
    await insert(sessionRow())
    expect(await store.sessions.update('aaaa', ['stopped'], { status: 'running' })).toBeUndefined()
    expect(await store.sessions.update('aaaa', ['running'], { status: 'stopped' })).toMatchObject({
      status: 'stopped',
    })
  })

  it('filters and pages', async () => {
    for (let n = 0; n < 7; n += 1)
      await insert(
        sessionRow({
          id: `s${n}`,
          created_at: n < 4 ? 5 : 6,
          labels: JSON.stringify({ n: String(n % 2), x_: 'A%' }),
        }),
      )
    await store.keys.insertProject({ ...project, id: 'q', name: 'q' })
    await insert(sessionRow({ id: 'other', project_id: 'q' }))
    const list = (options: object) => store.sessions.list({ projectId: 'p', limit: 3, ...options })
    const ids = (rows: SessionRow[]) => rows.map(({ id }) => id)
    expect(ids(await list({}))).toEqual(['s6', 's5', 's4'])
    expect(ids(await list({ subject: 'me' }))).toEqual([])
    await store.sessions.update('s4', undefined, { subject: 'me' })
    expect(ids(await list({ subject: 'me' }))).toEqual(['s4'])
    expect(ids(await list({ subject: 'ME' }))).toEqual([])
    expect(ids(await list({ after: { createdAt: 6, id: 's4' } }))).toEqual(['s3', 's2', 's1'])
    expect(ids(await list({ labels: { n: '1', x_: 'A%' } }))).toEqual(['s5', 's3', 's1'])
    expect(await list({ labels: { n: '1', x_: 'a%' } })).toEqual([])
    expect(await list({ status: ['paused'] })).toEqual([])
  })

  it('keeps events in order, and removes the oldest', async () => {
    const event = { project_id: 'p', session_id: 's', type: 't', data: '{}', created_at: 1 }
    await store.records.addEvents(Array.from({ length: 5 }, (_, n) => ({ ...event, data: String(n) })))
    await store.records.addEvents([{ ...event, project_id: 'q' }])
    await store.records.addEvents([])
    const last = await store.records.lastEvent()
    const found = await store.records.events('p', { after: last - 4, limit: 10 })
    expect(found.map(({ data }) => data)).toEqual(['2', '3', '4'])
    await store.records.prune({ events: { rows: 2, bytes: 1e6 }, audit: { rows: 2, bytes: 1e6 } })
    expect(await store.records.eventsBegin()).toBe(last - 2)
  })

  it('knows the newest events of one daemon’s sessions, whatever other daemons have written', async () => {
    await insert(sessionRow({ id: 'mine' }))
    await insert(sessionRow({ id: 'theirs', instance_id: 'j' }))
    const event = { project_id: 'p', type: 't', data: '{}', created_at: 1 }
    const of = (session_id: string | null) => ({ ...event, session_id })
    await store.records.addEvents([of('mine'), of('mine'), of('theirs'), of('theirs'), of(null)])
    const found = await store.records.newestEvents('i', 2)
    expect(found.map(({ session_id }) => session_id)).toEqual(['mine', 'mine'])
    expect(found[0]!.id).toBeGreaterThan(found[1]!.id)
    expect(await store.records.newestEvents('none', 2)).toEqual([])
  })

  it('keeps commands with their session, and deletes them with it', async () => {
    await insert(sessionRow())
    const exec = {
      session_id: 'aaaa',
      project_id: 'p',
      exec_id: 'e',
      kind: 'run' as const,
      status: 'running' as const,
      detached: 0,
      incarnation: 1,
      shell: null,
      command: '[]',
      fingerprint: 'f',
      created_at: 1,
      ended_at: null,
      result: null,
      events: null,
      bytes: 0,
    }
    expect(await store.execs.insert(exec)).toBe(true)
    expect(await store.execs.insert(exec)).toBe(false)
    await store.execs.update('aaaa', 'e', { status: 'done', result: '{}' })
    expect(await store.execs.running('aaaa')).toEqual([])
    await store.sessions.forget('aaaa')
    expect(await store.execs.get('aaaa', 'e')).toBeUndefined()
  })

  it('lists commands without results that are too large together', async () => {
    await insert(sessionRow())
    for (let at = 0; at < 4; at += 1) await insertEnded(`e${at}`, { at, bytes: 100_000 })
    const all = await store.execs.list('aaaa', { limit: 10, maxBytes: 250_000 })
    expect(all.map(({ exec_id, omitted, result }) => [exec_id, omitted, result?.length])).toEqual([
      ['e3', false, 100_000],
      ['e2', false, 100_000],
      ['e1', true, undefined],
      ['e0', true, undefined],
    ])
  })

  it('measures results by project, and drops the oldest', async () => {
    await insert(sessionRow())
    await store.keys.insertProject({ ...project, id: 'q', name: 'q' })
    await insert(sessionRow({ id: 'bbbb', project_id: 'q' }))
    for (let at = 0; at < 5; at += 1) await insertEnded(`e${at}`, { at, bytes: 100_000 })
    await insertEnded('other', { at: 0, bytes: 50_000, session: 'bbbb', project: 'q' })
    const before = await store.execs.keptBytes()
    expect(before.get('p')).toBeGreaterThan(500_000)
    expect(before.get('p')).toBeLessThan(510_000)
    expect(before.get('q')).toBeLessThan(51_000)
    expect(await store.execs.dropOldest('p', 150_000)).toBeGreaterThan(199_000)
    const left = await store.execs.list('aaaa', { limit: 10, maxBytes: 1e6 })
    expect(left.map(({ exec_id }) => exec_id)).toEqual(['e4', 'e3', 'e2'])
    expect((await store.execs.keptBytes()).get('q')).toBe(before.get('q'))
  })

  it('limits events and audit in bytes', async () => {
    const data = JSON.stringify('x'.repeat(1000))
    const event = { project_id: 'p', session_id: 's', type: 't', data, created_at: 1 }
    for (let round = 0; round < 4; round += 1)
      await store.records.addEvents(Array.from({ length: 500 }, () => event))
    const last = await store.records.lastEvent()
    const kept = await store.records.prune({
      events: { rows: 1e6, bytes: 1e6 },
      audit: { rows: 1, bytes: 1 },
    })
    expect(kept.events).toBeLessThanOrEqual(1e6)
    expect(kept.events).toBeGreaterThan(9e5)
    expect(last - (await store.records.eventsBegin())).toBeGreaterThan(800)
    expect(last - (await store.records.eventsBegin())).toBeLessThan(1000)
  })

  it('drops audit entries of the project with the most entries', async () => {
    const entry = { key_id: 'k', action: 'a', target: null, status: 200, request_id: 'r', created_at: 1 }
    const add = (project_id: string, count: number) =>
      store.records.addAudit(Array.from({ length: count }, () => ({ ...entry, project_id })))
    await add('quiet', 5)
    await add('loud', 200)
    await store.records.prune({ events: { rows: 1, bytes: 1 }, audit: { rows: 50, bytes: 1e6 } })
    expect(await store.records.audit('quiet', { limit: 100 })).toHaveLength(5)
    expect(await store.records.audit('loud', { limit: 100 })).toHaveLength(45)
  })

  it('counts starts one after another, so concurrent starts cannot exceed the quota', async () => {
    for (let at = 0; at < 8; at += 1) await insert(sessionRow({ id: `s${at}`, status: 'stopped' }))
    const check = (usage: { cpu: number }) => {
      if (usage.cpu + 0.5 > 1.5) throw new Error('full')
    }
    const rows = await store.sessions.list({ projectId: 'p', limit: 10 })
    const starts = await Promise.allSettled(rows.map((row) => store.sessions.reserveStart(row, { check })))
    expect(starts.filter(({ status }) => status === 'fulfilled')).toHaveLength(3)
    expect((await store.sessions.usage('p')).cpu).toBe(1.5)
    await store.sessions.forgetStarts({ instance_id: 'i' })
    expect((await store.sessions.usage('p')).cpu).toBe(0)
  })

  it('limits the ended sessions of each project', async () => {
    for (let at = 0; at < 6; at += 1)
      await insert(sessionRow({ id: `s${at}`, created_at: at, live: at === 0 ? 1 : 0, status: 'destroyed' }))
    expect(await store.sessions.pruneBeyond(2)).toBe(3)
    const left = await store.sessions.list({ projectId: 'p', limit: 10 })
    expect(left.map(({ id }) => id)).toEqual(['s5', 's4', 's0'])
  })

  it('inserts several sessions if there is room for all, and returns those with a free name', async () => {
    await insert(sessionRow({ id: 'first', name: 'taken' }))
    const rows = [
      sessionRow({ id: 'a', name: 'taken' }),
      sessionRow({ id: 'b', name: 'free' }),
      sessionRow({ id: 'c' }),
    ]
    expect(await store.sessions.insertAll(rows)).toEqual(new Set(['b', 'c']))
    const full = () => {
      throw new Error('full')
    }
    await expect(store.sessions.insertAll([sessionRow({ id: 'd' })], { check: full })).rejects.toThrow('full')
    expect(await store.sessions.get('d')).toBeUndefined()
  })

  async function insertEnded(
    exec_id: string,
    {
      at,
      bytes,
      session = 'aaaa',
      project = 'p',
    }: { at: number; bytes: number; session?: string; project?: string },
  ): Promise<void> {
    await store.execs.insert({
      session_id: session,
      project_id: project,
      exec_id,
      kind: 'run',
      status: 'running',
      detached: 0,
      incarnation: 1,
      shell: null,
      command: '[]',
      fingerprint: 'f',
      created_at: at,
      ended_at: null,
      result: null,
      events: null,
      bytes: 0,
    })
    await store.execs.update(session, exec_id, { status: 'done', ended_at: at, result: 'x'.repeat(bytes) })
  }

  it('keeps one row per port, changes it, and deletes it with its session', async () => {
    await insert(sessionRow())
    const port = {
      session_id: 'aaaa',
      port: 3000,
      visibility: 'token' as const,
      wake: 0,
      token_hash: 'h',
      generation: 'g',
      created_at: 1_800_000_000_000,
    }
    await store.ports.put(port)
    await store.ports.put({ ...port, visibility: 'public', token_hash: null, created_at: 5 })
    await store.ports.put({ ...port, port: 80 })
    expect(await store.ports.list('aaaa')).toEqual([
      { ...port, port: 80 },
      { ...port, visibility: 'public', token_hash: null },
    ])
    expect(await store.ports.delete('aaaa', 80)).toBe(true)
    expect(await store.ports.delete('aaaa', 80)).toBe(false)
    await store.sessions.forget('aaaa')
    expect(await store.ports.get('aaaa', 3000)).toBeUndefined()
  })

  it('keeps records of fronts, and deletes them with the session', async () => {
    await insert(sessionRow({ id: 'with-front' }))
    const row = { front: 'e2b', project_id: 'p', kind: 'sandbox', key: 'a', created_at: 1 }
    const bound = { ...row, session_id: 'with-front', data: '1' }
    expect(await store.fronts.insert(bound)).toBe(true)
    expect(await store.fronts.insert(bound)).toBe(false)
    await store.fronts.put({ ...bound, data: '2' })
    await store.fronts.put({ ...row, key: 'b', session_id: null, data: '3' })
    expect((await store.fronts.list('e2b', 'p', 'sandbox')).map(({ data }) => data)).toEqual(['2', '3'])
    expect(await store.fronts.get('vercel', 'p', 'sandbox', 'a')).toBeUndefined()
    await store.fronts.put({ ...bound, kind: 'other', data: '4' })
    await store.fronts.put({ ...bound, front: 'vercel', data: '5' })
    const own = await store.fronts.ofSession('e2b', 'with-front', 'sandbox')
    expect(own.map(({ key, data }) => [key, data])).toEqual([['a', '2']])
    await store.db.deleteFrom('sessions').where('id', '=', 'with-front').execute()
    expect((await store.fronts.list('e2b', 'p', 'sandbox')).map(({ key }) => key)).toEqual(['b'])
    expect(await store.fronts.delete('e2b', 'p', 'sandbox', 'b')).toBe(true)
    expect(await store.fronts.delete('e2b', 'p', 'sandbox', 'b')).toBe(false)
  })

  it('tells usable keys and tokens from others, and lists only keys', async () => {
    await store.keys.insertProject({ ...project, id: 'u', name: 'u' })
    const key = (id: string, more: object = {}) => ({
      id,
      project_id: 'u',
      name: 'k',
      hash: `hash-${id}`,
      scopes: 'read',
      created_at: 5,
      expires_at: null,
      revoked_at: null,
      subject: null,
      ...more,
    })
    await store.keys.insert(key('works'), 10)
    await store.keys.insert(key('revoked', { revoked_at: 6 }), 10)
    await store.keys.insert(key('expired', { expires_at: 9 }), 10)
    const { hash: _, ...token } = key('token', { expires_at: 20, subject: 'me' })
    expect(await store.keys.insertGrant(token, 1)).toBe(true)
    expect(await store.keys.usableIds('u', 9)).toEqual(['token', 'works'])
    expect(await store.keys.usableIds('u', 20)).toEqual(['works'])
    expect((await store.keys.list('u')).map(({ id }) => id)).toEqual(['expired', 'revoked', 'works'])
    expect(await store.keys.get('u', 'token')).toMatchObject({ subject: 'me', scopes: 'read' })
  })
})
