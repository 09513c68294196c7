import path from 'node:path'
import { EngineProvider } from '@sandkasten/engine'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'

let daemon: TestDaemon
beforeAll(async () => {
  daemon = await startTestDaemon({ reaper_interval_seconds: 3600 })
})
afterAll(() => daemon?.stop())

const get = async (id: string) => (await daemon.call('GET', `/v1/sessions/${id}`)).body
const reap = (inSeconds: number) => daemon.daemon.sessions.reaper.run(Date.now() + inSeconds * 1000)
const sandboxes = () => daemon.context.provider.list()

describe('leases', () => {
  it('end an idle session with the requested action', async () => {
    const destroyed = await daemon.session({ ttl_seconds: 100 })
    const stopped = await daemon.session({ ttl_seconds: 100, on_idle: 'stop' })
    const saved = await daemon.session({ ttl_seconds: 100, on_idle: 'snapshot-and-stop' })
    const later = await daemon.session({ ttl_seconds: 1000 })
    await reap(90)
    expect((await get(destroyed)).status).toBe('running')
    await reap(150)
    expect(await get(destroyed)).toMatchObject({
      status: 'expired',
      status_by: 'reaper',
      status_reason: 'idle for 100 s',
      expires_at: null,
    })
    expect(await get(stopped)).toMatchObject({ status: 'stopped', status_by: 'reaper' })
    expect(await get(saved)).toMatchObject({ status: 'stopped' })
    expect((await daemon.call('GET', `/v1/snapshots?session_id=${saved}`)).body.snapshots).toHaveLength(1)
    expect((await get(later)).status).toBe('running')
    expect((await daemon.call('POST', `/v1/sessions/${destroyed}/exec`, { cmd: 'true' })).body).toMatchObject(
      { code: 'gone', details: { status: 'expired' } },
    )
  })

  it('pause an idle session once if on_idle is pause', async () => {
    // Plain processes cannot be paused.
    const other = await startTestDaemon(
      { reaper_interval_seconds: 3600 },
      { provider: new MemoryProvider() as never },
    )
    try {
      const end = { ttl_seconds: 100, on_idle: 'pause', lifetime_seconds: 50, on_lifetime: 'pause' }
      const id = await other.session(end)
      const look = async () => (await other.call('GET', `/v1/sessions/${id}`)).body
      await other.daemon.sessions.reaper.run(Date.now() + 60_000)
      const paused = await look()
      expect(paused).toMatchObject({ status: 'paused', status_by: 'reaper' })
      await other.daemon.sessions.reaper.run(Date.now() + 1_000_000)
      expect(await look()).toMatchObject({ status: 'paused', status_at: paused.status_at })
      expect((await daemon.call('POST', '/v1/sessions', end)).body.code).toBe('unsupported')
    } finally {
      await other.stop()
    }
  })

  it('are extended by use, not by reads of the session', async () => {
    const id = await daemon.session({ ttl_seconds: 100 })
    const before = (await get(id)).expires_at
    for (const path of ['', '/execs', '/shells']) await daemon.call('GET', `/v1/sessions/${id}${path}`)
    expect((await get(id)).expires_at).toBe(before)
    await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'true' })
    const after = (await get(id)).expires_at
    expect(Date.parse(after)).toBeGreaterThan(Date.parse(before))
    const extended = await daemon.call('POST', `/v1/sessions/${id}/extend`, { ttl_seconds: 500 })
    expect(extended.body.ttl_seconds).toBe(500)
    expect(
      (await daemon.call('POST', `/v1/sessions/${id}/extend`, { ttl_seconds: 5 })).body.ttl_seconds,
    ).toBe(500)
  })

  it('do not end a session while a command runs in it', async () => {
    const id = await daemon.session({ ttl_seconds: 4, lifetime_seconds: 4 })
    await daemon.call('POST', `/v1/sessions/${id}/files/mkdir`, { path: 'd' })
    const plain = daemon.call('POST', `/v1/sessions/${id}/run`, {
      cmd: 'sh',
      args: ['-c', 'touch started; while [ ! -e go ]; do sleep 0.05; done'],
    })
    await expect
      .poll(async () => (await daemon.call('GET', `/v1/sessions/${id}/files/stat?path=started`)).status)
      .toBe(200)
    await reap(1000)
    expect((await get(id)).status).toBe('running')
    await daemon.call('POST', `/v1/sessions/${id}/fs/write`, { path: 'go', content: '' })
    expect((await plain).body.exit_code).toBe(0)
    await reap(1000)
    expect(await get(id)).toMatchObject({ status: 'expired', status_reason: 'its lifetime is over' })
  })

  it('are not extended by detached commands', async () => {
    const id = await daemon.session({ ttl_seconds: 100 })
    await daemon.call('POST', `/v1/sessions/${id}/run`, {
      cmd: 'sleep',
      args: ['600'],
      detach: true,
      exec_id: 'bg',
    })
    await reap(1000)
    expect((await get(id)).status).toBe('expired')
    await expect
      .poll(async () => (await daemon.call('GET', `/v1/sessions/${id}/execs/bg`)).body.status)
      .not.toBe('running')
  })

  it('survive a restart', async () => {
    const id = await daemon.session({ ttl_seconds: 100 })
    await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'cd /tmp' })
    const before = await get(id)
    await daemon.restart()
    expect(await get(id)).toEqual(before)
  })
})

describe('a clock that jumps', () => {
  it('neither ends sessions early nor extends them', async () => {
    const id = await daemon.session({ ttl_seconds: 100, lifetime_seconds: 1000 })
    const { context } = daemon
    const { leases } = daemon.daemon.sessions
    await daemon.call('POST', `/v1/sessions/${id}/run`, { cmd: 'true' })
    await leases.write()
    const { last_activity, started_at } = (await context.store.sessions.get(id))!
    const [wall, passed] = [Date.now(), performance.now()]
    await leases.mindTheClock(wall, passed)
    const hour = 3_600_000
    // Passing time is not a jump.
    expect(await leases.mindTheClock(wall + hour, passed + hour)).toBe(0)
    expect(await leases.mindTheClock(wall + 3 * hour, passed + hour)).toBe(2 * hour)
    expect(await context.store.sessions.get(id)).toMatchObject({
      last_activity: last_activity + 2 * hour,
      started_at: started_at + 2 * hour,
    })
    expect(await leases.mindTheClock(wall, passed + hour)).toBe(-3 * hour)
    expect(await leases.mindTheClock(wall + hour, passed + hour)).toBe(hour)
    expect(await context.store.sessions.get(id)).toMatchObject({ last_activity, started_at })
    expect((await daemon.call('GET', `/v1/sessions/${id}`)).body.status).toBe('running')
    await daemon.call('DELETE', `/v1/sessions/${id}`)
  })
})

describe('reconciliation', () => {
  it('finds rows without sandboxes and sandboxes without rows, and touches nothing else', async () => {
    const { provider } = daemon.context
    const gone = await daemon.session()
    const ended = await daemon.session()
    const fine = await daemon.session()
    const rows = await daemon.context.store.sessions.live(daemon.daemon.instanceId)
    const sandboxOf = (id: string) => rows.find((row) => row.id === id)!.sandbox_id!
    await provider.destroy(sandboxOf(gone))
    await (await provider.get(sandboxOf(ended))).stop()
    const strangers = new EngineProvider({ isolator: 'process', root: path.join(daemon.folder, 'engine') })
    const stranger = await strangers.create({ labels: { 'sandkasten.instance': 'another' } })
    const plain = await strangers.create({})
    const orphan = await strangers.create({
      labels: { 'sandkasten.instance': daemon.daemon.instanceId, 'sandkasten.session': 'nobody' },
    })
    await daemon.daemon.sessions.reconciler.run()
    expect(await get(gone)).toMatchObject({
      status: 'crashed',
      status_by: 'reconciler',
      status_reason: 'its sandbox is gone',
    })
    expect(await get(ended)).toMatchObject({
      status: 'crashed',
      status_reason: 'its sandbox ended by itself',
    })
    expect((await get(fine)).status).toBe('running')
    const left = (await sandboxes()).map(({ sandboxId }) => sandboxId)
    expect(left).toEqual(expect.arrayContaining([stranger.sandboxId, plain.sandboxId, sandboxOf(fine)]))
    expect(left).not.toContain(orphan.sandboxId)
    expect((await daemon.call('POST', `/v1/sessions/${ended}/start`)).body).toMatchObject({
      status: 'running',
      incarnation: 2,
    })
    expect((await daemon.call('POST', `/v1/sessions/${gone}/start`)).body).toMatchObject({ code: 'gone' })
    await stranger.destroy()
    await plain.destroy()
  })

  it('undoes an unanswered create, and lets the client repeat it', async () => {
    const { store } = daemon.context
    const made = await daemon.session({ idempotency_key: 'cut' })
    const before = (await sandboxes()).length
    // The state after a daemon was killed between creating the sandbox and updating the row.
    await store.sessions.update(made, undefined, { status: 'creating', sandbox_id: null })
    await daemon.restart()
    expect(await get(made)).toMatchObject({ status: 'failed', status_by: 'reconciler' })
    expect(await sandboxes()).toHaveLength(before - 1)
    const again = await daemon.call('POST', '/v1/sessions', { idempotency_key: 'cut' })
    expect(again.status).toBe(201)
    expect(again.body.id).not.toBe(made)
  })

  it('publishes events that an earlier process did not publish, once', async () => {
    const { store, events } = daemon.context
    const [told, untold] = [await daemon.session(), await daemon.session()]
    await events.flush()
    await store.db.deleteFrom('events').where('session_id', '=', untold).execute()
    await daemon.restart()
    await daemon.restart()
    const after = daemon.context
    await after.events.flush()
    for (const id of [told, untold]) {
      const found = await after.store.records.events('default', { after: 0, limit: 10_000, sessionId: id })
      expect(found.map(({ type }) => type)).toEqual(['session.running'])
    }
  })

  it('removes a snapshot without a row, and no other', async () => {
    const id = await daemon.session()
    const { body: told } = await daemon.call('POST', `/v1/sessions/${id}/snapshots`, {})
    const { provider, store } = daemon.context
    const sandbox = await provider.get((await store.sessions.get(id))!.sandbox_id!)
    const untold = await sandbox.snapshot()
    const stranger = await provider.create({})
    const theirs = await stranger.snapshot()
    await daemon.restart()
    const left = (await daemon.context.provider.listSnapshots()).map(({ snapshotId }) => snapshotId)
    expect(left).not.toContain(untold.snapshotId)
    expect(left).toContain(theirs.snapshotId)
    expect(await daemon.session({ snapshot_id: told.id })).toBeTypeOf('string')
    await stranger.destroy()
  })

  it('notices an ended sandbox on use, and wakes it if the session allows it', async () => {
    const plain = await daemon.session()
    const waking = await daemon.session({ wake_on_use: true })
    const { provider, store, instanceId } = daemon.context
    for (const { id, sandbox_id } of await store.sessions.live(instanceId))
      if (id === plain || id === waking) await (await provider.get(sandbox_id!)).stop()
    const use = (id: string) => daemon.call('POST', `/v1/sessions/${id}/run`, { cmd: 'true' })
    expect((await use(plain)).body).toMatchObject({ code: 'interrupted' })
    expect((await get(plain)).status).toBe('crashed')
    expect((await use(plain)).body).toMatchObject({ code: 'not_running' })
    expect((await use(waking)).body.code).toBe('interrupted')
    expect((await use(waking)).body.exit_code).toBe(0)
  })
})

describe('two daemons', () => {
  it('refuse to share a data folder, and ignore each other’s sandboxes', async () => {
    await expect(startTestDaemon({ data_dir: daemon.folder })).rejects.toMatchObject({ code: 'conflict' })
    const id = await daemon.session()
    const other = await startTestDaemon()
    await other.daemon.sessions.reconciler.run()
    expect((await get(id)).status).toBe('running')
    await other.stop()
  })

  it('explain why they cannot listen', async () => {
    const { port } = new URL(daemon.daemon.url)
    await expect(
      startTestDaemon({ listen: `127.0.0.1:${port}`, preview_listen: '127.0.0.1:0' }),
    ).rejects.toMatchObject({
      message: expect.stringContaining('EADDRINUSE'),
      hint: expect.stringContaining('another port'),
    })
  })
})
