import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { postgresMissing, startPostgres, type TestPostgres } from '../../../database/src/testing/postgres.ts'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'
import { isolationMissing } from '../../src/testing/isolator.ts'

const missing = await isolationMissing()
const noPostgres = await postgresMissing()

type Mount = { name: string; path: string; read_only?: boolean }
const at = (name: string, read_only?: boolean): Mount => ({ name, path: '/data', read_only })

const kinds = [
  ['sqlite', missing],
  ['postgres', missing ?? noPostgres],
] as const
for (const [kind, skipped] of kinds)
  describe.skipIf(skipped)(`volumes on ${kind}${skipped ? ` (skipped: ${skipped})` : ''}`, () => {
    let postgres: TestPostgres | undefined
    let daemon: TestDaemon
    const keys: Record<'ours' | 'theirs' | 'reader', string> = { ours: '', theirs: '', reader: '' }
    beforeAll(async () => {
      if (kind === 'postgres') postgres = await startPostgres()
      daemon = await startTestDaemon({
        isolator: 'oci',
        db_url: postgres?.url,
        quotas: { volumes: 6, volume_mb: 200 },
        defaults: { volume_limit_mb: 16 },
        wake_on_use: true,
      })
      for (const name of ['ours', 'theirs'] as const) {
        const project = await daemon.call('POST', '/v1/projects', { name })
        const key = await daemon.call('POST', '/v1/keys', {
          name,
          project_id: project.body.id,
          scopes: ['exec'],
        })
        keys[name] = key.body.key
        if (name !== 'ours') continue
        const read = { name: 'reader', project_id: project.body.id, scopes: ['read'] }
        keys.reader = (await daemon.call('POST', '/v1/keys', read)).body.key
      }
    })
    afterAll(async () => {
      await daemon?.stop()
      await postgres?.stop()
    })
    afterEach(async () => {
      for (const key of [keys.ours, keys.theirs]) {
        const live = '/v1/sessions?status=running,paused,stopped,crashed'
        for (const { id } of (await call('GET', live, undefined, key)).body.sessions)
          await call('DELETE', `/v1/sessions/${id}`, undefined, key)
        for (const { name } of (await call('GET', '/v1/volumes', undefined, key)).body.volumes)
          await call('DELETE', `/v1/volumes/${name}`, undefined, key)
      }
    })

    const call = (method: string, path: string, body?: unknown, key = keys.ours) =>
      daemon.call(method, path, body, { key })
    const create = (name: string, key?: string, limit_mb?: number) =>
      call('POST', '/v1/volumes', { name, limit_mb }, key)
    const mount = (volumes: Mount[], key?: string, more: object = {}) =>
      call('POST', '/v1/sessions', { volumes, wake_on_use: false, ...more }, key)
    const sh = async (id: string, cmd: string, key?: string) =>
      (await call('POST', `/v1/sessions/${id}/exec`, { cmd }, key)).body.output?.trim()
    const volume = async (name: string, key?: string) =>
      (await call('GET', `/v1/volumes/${name}`, undefined, key)).body

    it('outlive the sessions that mount them', async () => {
      const made = await create('data')
      expect(made).toMatchObject({
        status: 201,
        body: { name: 'data', status: 'ready', limit_mb: 16, writer_session_id: null },
      })
      const first = (await mount([at('data')])).body
      expect(first.volumes).toEqual([{ name: 'data', path: '/data', read_only: false }])
      await sh(first.id, 'echo kept > /data/note')
      expect(await volume('data')).toMatchObject({
        writer_session_id: first.id,
        size_bytes: expect.any(Number),
      })
      await call('DELETE', `/v1/sessions/${first.id}`)
      expect((await volume('data')).writer_session_id).toBeNull()
      const second = (await mount([{ name: 'data', path: '/elsewhere' }])).body
      expect(await sh(second.id, 'cat /elsewhere/note')).toBe('kept')
    })

    it('are written by one session and read by others, which see its changes at once', async () => {
      await create('shared')
      const writer = (await mount([at('shared')])).body.id
      const reader = (await mount([at('shared', true)])).body.id
      await sh(writer, 'echo news > /data/note')
      expect(await sh(reader, 'cat /data/note; echo mine > /data/note')).toMatch(
        /^news\n.*Read-only file system/,
      )
      expect(await mount([at('shared')])).toMatchObject({
        status: 409,
        body: { code: 'conflict', details: { volume: 'shared', session_id: writer } },
      })
      const { body } = await mount([at('shared')])
      expect(body.detail).toContain(writer)
    })

    it('only one of many concurrent writers gets the volume', async () => {
      await create('wanted')
      const answers = await Promise.all(Array.from({ length: 6 }, () => mount([at('wanted')])))
      const made = answers.filter(({ status }) => status === 201)
      expect(made).toHaveLength(1)
      for (const { status, body } of answers)
        if (status !== 201)
          expect(body).toMatchObject({ code: 'conflict', details: { session_id: made[0]!.body.id } })
      expect((await call('GET', '/v1/sessions?status=running')).body.sessions).toHaveLength(1)
    })

    it('are released by a stop, and taken again by a start or a wake', async () => {
      await create('passed')
      const first = (await mount([at('passed')], undefined, { wake_on_use: true })).body.id
      await call('POST', `/v1/sessions/${first}/pause`)
      expect((await mount([at('passed')])).status).toBe(409)
      await call('POST', `/v1/sessions/${first}/resume`)
      await call('POST', `/v1/sessions/${first}/stop`)
      expect((await volume('passed')).writer_session_id).toBeNull()
      const second = (await mount([at('passed')])).body.id
      for (const path of ['start', 'exec']) {
        const body = path === 'exec' ? { cmd: 'true' } : {}
        expect(await call('POST', `/v1/sessions/${first}/${path}`, body)).toMatchObject({
          status: 409,
          body: { code: 'conflict', details: { session_id: second } },
        })
      }
      await daemon.restart()
      expect((await volume('passed')).writer_session_id).toBe(second)
      expect((await call('POST', `/v1/sessions/${first}/start`)).status).toBe(409)
      await call('POST', `/v1/sessions/${second}/stop`)
      const starts = await Promise.all([first, second].map((id) => call('POST', `/v1/sessions/${id}/start`)))
      expect(starts.map(({ status }) => status).sort()).toEqual([200, 409])
    })

    it('are inherited read-only by forks, and a writer is not forked', async () => {
      await create('copied')
      const writer = (await mount([at('copied')])).body.id
      await sh(writer, 'echo kept > /data/note; echo own > ~/own')
      expect(await call('POST', `/v1/sessions/${writer}/fork`, {})).toMatchObject({
        status: 409,
        body: {
          code: 'conflict',
          detail: expect.stringContaining('cannot be forked'),
          details: { volume: 'copied' },
        },
      })
      const snapshot = (await call('POST', `/v1/sessions/${writer}/snapshots`, {})).body.id
      expect((await mount([at('copied')], undefined, { snapshot_id: snapshot })).status).toBe(409)
      const reader = (await mount([at('copied', true)], undefined, { snapshot_id: snapshot })).body.id
      expect(await sh(reader, 'cat /data/note ~/own')).toBe('kept\nown')
      const { body } = await call('POST', `/v1/sessions/${reader}/fork`, { count: 2 })
      for (const fork of body.sessions) {
        expect(fork.volumes).toEqual([{ name: 'copied', path: '/data', read_only: true }])
        expect(await sh(fork.id, 'cat /data/note')).toBe('kept')
      }
      await call('DELETE', `/v1/snapshots/${snapshot}`)
    })

    it('are kept while a session mounts them, and gone afterwards', async () => {
      await create('used')
      const id = (await mount([at('used', true)])).body.id
      await call('POST', `/v1/sessions/${id}/stop`)
      expect(await call('DELETE', '/v1/volumes/used')).toMatchObject({
        status: 409,
        body: { code: 'conflict', details: { session_ids: [id] } },
      })
      await call('DELETE', `/v1/sessions/${id}`)
      expect(await call('DELETE', '/v1/volumes/used')).toMatchObject({ status: 200, body: { deleted: true } })
      for (const answer of [
        await call('DELETE', '/v1/volumes/used'),
        await call('GET', '/v1/volumes/used'),
        await mount([at('used')]),
      ])
        expect(answer).toMatchObject({ status: 404, body: { code: 'not_found' } })
      expect(await daemon.context.provider.volumes!.list()).toEqual([])
      expect((await create('used')).status).toBe(201)
    })

    it('deleting and mounting at the same time never gives a session without its volume', async () => {
      for (let round = 0; round < 5; round++) {
        await create('raced')
        const [deleted, mounted] = await Promise.all([
          call('DELETE', '/v1/volumes/raced'),
          mount([at('raced')]),
        ])
        expect([deleted.status, mounted.status].sort()).toEqual(
          deleted.status === 200 ? [200, 404] : [201, 409],
        )
        if (mounted.status === 201) await call('DELETE', `/v1/sessions/${mounted.body.id}`)
        await call('DELETE', '/v1/volumes/raced')
      }
    })

    it('of two projects never meet, whatever their names', async () => {
      await create('data')
      expect(await volume('data', keys.theirs)).toMatchObject({ code: 'not_found' })
      expect((await mount([at('data')], keys.theirs)).status).toBe(404)
      expect((await call('DELETE', '/v1/volumes/data', undefined, keys.theirs)).status).toBe(404)
      expect((await create('data', keys.theirs)).status).toBe(201)
      const [ours, theirs] = [await mount([at('data')]), await mount([at('data')], keys.theirs)]
      await sh(ours.body.id, 'echo secret > /data/note')
      expect(await sh(theirs.body.id, 'ls -A /data', keys.theirs)).toBe('')
      expect((await volume('data', keys.theirs)).writer_session_id).toBe(theirs.body.id)
      const refused = await mount([at('data')], keys.theirs)
      expect(JSON.stringify(refused.body)).not.toContain(ours.body.id)
      expect((await call('GET', '/v1/volumes', undefined, keys.theirs)).body.volumes).toHaveLength(1)
      await call('DELETE', `/v1/sessions/${theirs.body.id}`, undefined, keys.theirs)
      await call('DELETE', '/v1/volumes/data', undefined, keys.theirs)
      expect(await sh(ours.body.id, 'cat /data/note')).toBe('secret')
    })

    it('the quotas hold for parallel requests', async () => {
      const count = await Promise.all(Array.from({ length: 12 }, (_, index) => create(`v${index}`)))
      expect(count.filter(({ status }) => status === 201)).toHaveLength(6)
      for (const { status, body } of count)
        if (status !== 201)
          expect(body).toMatchObject({
            status: 429,
            code: 'quota_exceeded',
            details: { quota: 'volumes', limit: 6, used: 6 },
          })
      expect((await create('elsewhere', keys.theirs)).status).toBe(201)
      expect((await call('GET', '/v1/whoami')).body.used).toMatchObject({ volumes: 6, volume_mb: 96 })
      const made = count.findIndex(({ status }) => status === 201)
      await call('DELETE', `/v1/volumes/v${made}`)
      expect((await create('again')).status).toBe(201)
    })

    it('the quota of their total size holds for parallel requests', async () => {
      const size = await Promise.all(
        Array.from({ length: 5 }, (_, index) => create(`v${index}`, undefined, 90)),
      )
      expect(size.filter(({ status }) => status === 201)).toHaveLength(2)
      const { body } = await create('more', undefined, 21)
      expect(body).toMatchObject({
        code: 'quota_exceeded',
        details: { quota: 'volume_mb', limit: 200, used: 180 },
      })
      expect(body.hint).toContain('Delete volumes')
      expect((await create('fits', undefined, 20)).status).toBe(201)
    })

    it('a name is used once, however many ask for it', async () => {
      const answers = await Promise.all(Array.from({ length: 5 }, () => create('same')))
      expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409])
      expect(await daemon.context.provider.volumes!.list()).toHaveLength(1)
    })

    it('are limited in size', async () => {
      await create('small')
      const id = (await mount([at('small')])).body.id
      expect(await sh(id, 'head -c 20M /dev/urandom > /data/large')).toContain('No space left on device')
      expect(await sh(id, 'echo mine > ~/note && cat ~/note')).toBe('mine')
      expect((await volume('small')).size_bytes).toBeLessThanOrEqual(16 * 1024 * 1024)
      expect((await create('huge', undefined, 102_401)).body).toMatchObject({
        code: 'invalid_argument',
        detail: expect.stringContaining('limit_mb'),
      })
    })

    it.each([
      '',
      '.',
      '..',
      '../etc',
      'a/b',
      '.hidden',
      '-rf',
      'a b',
      'ü',
      'a\u0000b',
      'a\nb',
      'x'.repeat(65),
      '$(id)',
      42,
      null,
      { toString: 1 },
    ])('rejects the name %j', async (name) => {
      expect(await create(name as string)).toMatchObject({ status: 400, body: { code: 'invalid_argument' } })
      expect((await mount([{ name: name as string, path: '/data' }])).status).toBe(400)
      if (typeof name === 'string' && name.length > 2) {
        const path = `/v1/volumes/${encodeURIComponent(name)}`
        expect([400, 404]).toContain((await call('GET', path)).status)
        expect([400, 404]).toContain((await call('DELETE', path)).status)
      }
      expect((await call('GET', '/v1/volumes')).body.volumes).toEqual([])
    })

    it.each(['lock', 'constructor', '__proto__x'.slice(2), 'a.ext4', 'A-1_2.3'])(
      'accepts the name %s',
      async (name) => {
        expect((await create(name)).status).toBe(201)
        const { body } = await mount([at(name)])
        expect(await sh(body.id, 'echo fine > /data/note; cat /data/note')).toBe('fine')
      },
    )

    it.each([
      [[{ name: 'ok', path: 'data' }], 'absolute'],
      [[{ name: 'ok', path: '/' }], '/'],
      [[{ name: 'ok', path: '/proc/x' }], '/proc'],
      [[{ name: 'ok', path: '/etc' }], '/etc'],
      [[at('ok'), { name: 'ok', path: '/other' }], 'twice'],
      [[at('ok'), at('other')], '/data'],
      [Array.from({ length: 17 }, (_, index) => ({ name: 'ok', path: `/v${index}` })), 'volumes'],
      [[{ name: 'ok', path: '/data', source: '/etc' }], 'source'],
    ])('rejects the mounts %j', async (volumes, word) => {
      await create('ok')
      await create('other')
      const { status, body } = await mount(volumes)
      expect([status, body.code]).toEqual([400, 'invalid_argument'])
      expect(JSON.stringify(body)).toContain(word)
      expect((await volume('ok')).writer_session_id).toBeNull()
    })

    it('need the scope exec for changes, and read for the rest', async () => {
      await create('scoped')
      expect((await create('mine', keys.reader)).status).toBe(403)
      expect((await call('DELETE', '/v1/volumes/scoped', undefined, keys.reader)).status).toBe(403)
      expect((await volume('scoped', keys.reader)).name).toBe('scoped')
      const { body } = await call('GET', '/v1/volumes', undefined, keys.reader)
      expect(body.volumes).toHaveLength(1)
    })

    it('are listed in pages, newest first', async () => {
      for (const name of ['one', 'two', 'three']) await create(name)
      const first = await call('GET', '/v1/volumes?limit=2')
      const rest = await call('GET', `/v1/volumes?limit=2&cursor=${first.body.next_cursor}`)
      const names = [...first.body.volumes, ...rest.body.volumes].map((one: { name: string }) => one.name)
      expect(names).toEqual(['three', 'two', 'one'])
      expect(rest.body.next_cursor).toBeUndefined()
    })

    it('are in the events and in the audit log', async () => {
      await create('told')
      await call('DELETE', '/v1/volumes/told')
      await daemon.context.events.flush()
      const { body } = await call('GET', '/v1/events?after=0&limit=1000')
      const told = body.events.filter((event: { data: object }) => 'volume' in event.data).slice(-2)
      expect(told).toMatchObject([
        { type: 'volume.created', data: { volume: 'told' } },
        { type: 'volume.deleted', data: { volume: 'told' } },
      ])
      const admin = (await call('GET', '/v1/whoami')).body.project_id
      await expect
        .poll(async () => (await daemon.context.store.records.audit(admin, { limit: 1 }))[0])
        .toMatchObject({ action: 'deleteVolume', target: 'told', status: 200 })
    })

    it('are removed when their create or delete was interrupted', async () => {
      const { provider, store, instanceId } = daemon.context
      for (const name of ['creating', 'deleting', 'ready']) await create(name)
      const states = { creating: 'creating', deleting: 'deleting', ready: 'ready' } as const
      for (const { id, name } of await store.volumes.ofInstance(instanceId))
        await store.volumes.setState(id, ['ready'], states[name as keyof typeof states])
      // A crash may also come before the volume exists, and after it is gone.
      for (const [id, state] of [
        ['early', 'creating'],
        ['late', 'deleting'],
      ] as const) {
        const [row] = await store.volumes.ofInstance(instanceId)
        await store.volumes.insert(
          { ...row!, id, name: id, state, provider_name: `${instanceId}.${id}` },
          () => {},
        )
      }
      expect((await call('GET', '/v1/volumes')).body.volumes).toHaveLength(1)
      expect(await provider.volumes!.list()).toHaveLength(3)
      await daemon.restart()
      const rows = await daemon.context.store.volumes.ofInstance(instanceId)
      expect(rows.map(({ name, state }) => [name, state])).toEqual([['ready', 'ready']])
      expect(await daemon.context.provider.volumes!.list()).toHaveLength(1)
    })

    it('are lost while their content has disappeared', async () => {
      await create('gone')
      const { provider, store, instanceId } = daemon.context
      const [row] = await store.volumes.ofInstance(instanceId)
      await provider.volumes!.remove(row!.provider_name)
      await provider.volumes!.create(`${instanceId}.stray`)
      await provider.volumes!.create('someone-elses')
      await daemon.restart()
      const names = async () => (await daemon.context.provider.volumes!.list()).map(({ name }) => name)
      expect(await names()).toEqual(['someone-elses'])
      expect((await volume('gone')).status).toBe('lost')
      expect(await mount([at('gone')])).toMatchObject({ status: 404, body: { code: 'not_found' } })
      await daemon.context.provider.volumes!.create(row!.provider_name)
      await daemon.restart()
      expect((await volume('gone')).status).toBe('ready')
      expect((await mount([at('gone')])).status).toBe(201)
      await daemon.context.provider.volumes!.remove('someone-elses')
    })
  })

describe.skipIf(missing)(`limits of volumes${missing ? ` (skipped: ${missing})` : ''}`, () => {
  it('are 1 GiB each, 100 volumes and 100 GiB by default', async () => {
    const daemon = await startTestDaemon({ isolator: 'oci' })
    try {
      const create = (name: string, limit_mb?: number) =>
        daemon.call('POST', '/v1/volumes', { name, limit_mb })
      expect((await create('first')).body.limit_mb).toBe(1024)
      const { store, instanceId } = daemon.context
      const [row] = await store.volumes.ofInstance(instanceId)
      const copy = (id: string, changes: object) =>
        store.volumes.insert({ ...row!, id, name: id, provider_name: id, limit_mb: 8, ...changes }, () => {})
      for (let index = 1; index < 100; index++) await copy(`v${index}`, {})
      expect((await create('more')).body).toMatchObject({ details: { quota: 'volumes', limit: 100 } })
      for (let index = 1; index < 100; index++) await store.volumes.delete(`v${index}`)
      await copy('large', { limit_mb: 100 * 1024 })
      expect((await create('more')).body).toMatchObject({ details: { quota: 'volume_mb', limit: 102_400 } })
      await store.volumes.delete('large')
    } finally {
      await daemon.stop()
    }
  })

  it('a pooled sandbox is not used for a session with volumes', async () => {
    const daemon = await startTestDaemon({ isolator: 'oci', pool: [{ size: 1 }] })
    try {
      const metrics = async () => (await daemon.call('GET', '/metrics')).body as string
      await expect.poll(metrics, { timeout: 20_000 }).toMatch(/^sandkasten_pool_ready\{.*\} 1$/m)
      await daemon.call('POST', '/v1/volumes', { name: 'data' })
      const id = await daemon.session({ volumes: [at('data')] })
      const { body } = await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'stat -c %a /data' })
      expect(body.output).toBe('777\n')
    } finally {
      await daemon.stop()
    }
  })

  it('can be switched off; then the quota counts what volumes hold', async () => {
    const daemon = await startTestDaemon({
      isolator: 'oci',
      defaults: { volume_limit_mb: 0 },
      quotas: { volume_mb: 20 },
    })
    try {
      const create = (name: string, limit_mb?: number) =>
        daemon.call('POST', '/v1/volumes', { name, limit_mb })
      expect((await create('open')).body.limit_mb).toBeNull()
      const id = await daemon.session({ volumes: [at('open')] })
      await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'head -c 15M /dev/urandom > /data/large' })
      expect((await daemon.call('GET', '/v1/volumes/open')).body.size_bytes).toBeGreaterThan(15_000_000)
      expect((await daemon.call('GET', '/v1/volumes')).body.volumes[0].size_bytes).toBeNull()
      expect((await create('eight', 8)).body).toMatchObject({
        code: 'quota_exceeded',
        details: { quota: 'volume_mb', limit: 20 },
      })
      await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'rm /data/large' })
      expect((await create('eight', 8)).status).toBe(201)
    } finally {
      await daemon.stop()
    }
  })
})

describe('without isolation', () => {
  it('there are no volumes', async () => {
    const daemon = await startTestDaemon()
    try {
      const refused = { body: { code: 'unsupported' } }
      expect(await daemon.call('POST', '/v1/volumes', { name: 'data' })).toMatchObject(refused)
      expect(await daemon.call('POST', '/v1/sessions', { volumes: [at('data')] })).toMatchObject(refused)
      expect((await daemon.call('GET', '/v1/volumes')).body).toEqual({ volumes: [] })
      expect((await daemon.call('GET', '/v1/volumes/data')).status).toBe(404)
    } finally {
      await daemon.stop()
    }
  })
})
