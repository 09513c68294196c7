import { MemoryProvider } from '@sandkasten/sdk/memory'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { postgresMissing, startPostgres, type TestPostgres } from '../../../database/src/testing/postgres.ts'
import type { DaemonProvider } from '../../src/sessions/index.ts'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'

/** Policies of projects apply to every way in which a session is created or started, without a restart. */
const missing = await postgresMissing()
let postgres: TestPostgres | undefined
beforeAll(async () => {
  if (!missing) postgres = await startPostgres()
})
afterAll(() => postgres?.stop())

const cleanUps: Array<() => unknown> = []
afterEach(async () => {
  while (cleanUps.length > 0) await cleanUps.pop()!()
})

describe.each([
  ['SQLite', undefined],
  [`Postgres${missing ? ` (skipped: ${missing})` : ''}`, missing],
])('policies on %s', (kind, skipped) => {
  let count = 0
  async function begin(settings: Record<string, unknown> = {}) {
    const provider = new MemoryProvider({ createOptions: ['resources', 'providerOptions', 'image'] })
    provider.command(
      () => true,
      async ({ stdout }) => void (await stdout.write('x')),
    )
    const database = kind === 'SQLite' ? {} : { db_url: await postgres!.database(`policies${count++}`) }
    const daemon = await startTestDaemon(
      {
        default_image: 'host',
        allowed_images: ['host', 'python:3.12', 'python:3.13', 'node'],
        allowed_networks: ['none', 'open'],
        ...database,
        ...settings,
      },
      { provider: provider as unknown as DaemonProvider },
    )
    cleanUps.push(() => daemon.stop())
    const { id } = (await daemon.call('POST', '/v1/projects', { name: 'acme' })).body
    const make = async (scope: string) =>
      (await daemon.call('POST', '/v1/keys', { name: scope, scopes: [scope], project_id: id })).body.key
    const [key, admin] = [await make('exec'), await make('admin')]
    const path = `/v1/projects/${id}/policy`
    return {
      daemon,
      admin,
      key,
      path,
      set: async (policy: object) => {
        const answer = await daemon.call('PUT', path, policy)
        expect(answer.status, JSON.stringify(answer.body)).toBe(200)
        return answer.body
      },
      create: (body: object = {}) => daemon.call('POST', '/v1/sessions', body, { key }),
      post: (where: string, body: object = {}) => daemon.call('POST', where, body, { key }),
    }
  }

  it.skipIf(skipped)('are written by the operator, and read by their own project', async () => {
    const { daemon, path, key, admin, set } = await begin()
    const read = (who: string, where = path) => daemon.call('GET', where, undefined, { key: who })
    expect((await read(key)).body).toMatchObject({ policy: {}, effective: { default_image: 'host' } })
    const policy = { images: ['python:*'], max: { cpu: 2 }, max_lifetime_seconds: 60, pool: [] }
    expect(await set(policy)).toEqual({
      policy,
      effective: {
        images: ['python:3.12', 'python:3.13'],
        default_image: 'python:3.12',
        networks: ['none', 'open'],
        max: { cpu: 2, memory_mb: 16_384, pids: 16_384, disk_mb: 1_048_576 },
        max_ttl_seconds: 604_800,
        max_lifetime_seconds: 60,
      },
    })
    expect((await read(key)).body.policy).toEqual(policy)
    // A project cannot change its own policy, nor see another one.
    expect((await daemon.call('PUT', path, {}, { key: admin })).status).toBe(403)
    expect((await read(admin, '/v1/projects/default/policy')).status).toBe(404)
    expect((await daemon.call('PUT', '/v1/projects/none-such/policy', {})).status).toBe(404)
    for (const wrong of [
      { image: ['a'] },
      { images: [] },
      { max: { cpu: 0 } },
      { networks: ['all'] },
      { images: ['a b'] },
    ])
      expect((await daemon.call('PUT', path, wrong)).status, JSON.stringify(wrong)).toBe(400)
    await daemon.restart()
    expect((await read(key)).body.policy).toEqual(policy)
    await set({})
    expect((await read(key)).body.policy).toEqual({})
  })

  const refusals: Array<[field: string, policy: object, body: object, allowed: RegExp]> = [
    ['images', { images: ['python:*'] }, { image: 'node' }, /python:3\.12, python:3\.13/],
    ['networks', { networks: ['none'] }, { network_mode: 'open' }, /none/],
    ['max.cpu', { max: { cpu: 2 } }, { limits: { cpu: 2.5 } }, /at most 2/],
    ['max.memory_mb', { max: { memory_mb: 600 } }, { limits: { memory_mb: 601 } }, /at most 600/],
    ['max.pids', { max: { pids: 300 } }, { limits: { pids: 301 } }, /at most 300/],
    ['max.disk_mb', { max: { disk_mb: 500 } }, { limits: { disk_mb: 501 } }, /at most 500/],
    ['max_ttl_seconds', { max_ttl_seconds: 60 }, { ttl_seconds: 61 }, /at most 60/],
    ['max_lifetime_seconds', { max_lifetime_seconds: 60 }, { lifetime_seconds: 61 }, /at most 60/],
  ]
  it.skipIf(skipped)('refuse a create, with the field and what is allowed', async () => {
    const { create, set, daemon } = await begin()
    for (const [field, policy, body, allowed] of refusals) {
      await set({})
      expect((await create(body)).status, field).toBe(201)
      await set(policy)
      const { status, body: problem } = await create(body)
      expect({ status, code: problem.code, policy: problem.details.policy }).toEqual({
        status: 403,
        code: 'forbidden',
        policy: field,
      })
      expect(problem.detail).toContain(field)
      expect(problem.hint).toMatch(allowed)
      // The defaults fit every policy.
      expect((await create()).status, field).toBe(201)
      // Other projects are free.
      expect((await daemon.call('POST', '/v1/sessions', body)).status).toBe(201)
    }
  })

  it.skipIf(skipped)('change the defaults of a create', async () => {
    const { create, set } = await begin()
    await set({
      images: ['python:3.13'],
      networks: ['open'],
      max: { cpu: 0.5, memory_mb: 100, pids: 10, disk_mb: 50 },
      max_ttl_seconds: 60,
      max_lifetime_seconds: 120,
    })
    expect((await create()).body).toMatchObject({
      image: 'python:3.13',
      network_mode: 'open',
      limits: { cpu: 0.5, memory_mb: 100, pids: 10, disk_mb: 50 },
      ttl_seconds: 60,
      lifetime_seconds: 120,
    })
    // Nothing that the configuration allows is left.
    await set({ images: ['ruby'] })
    expect((await create()).body).toMatchObject({ code: 'forbidden', details: { policy: 'images' } })
  })

  it.skipIf(skipped)('never allow more than the configuration', async () => {
    const { create, set } = await begin({ allowed_networks: ['none'] })
    await set({
      images: ['*', 'ruby'],
      networks: ['open', 'none'],
      max: { cpu: 1000 },
      max_lifetime_seconds: 31_000_000,
    })
    expect((await create({ image: 'ruby' })).body.code).toBe('invalid_argument')
    expect((await create()).status).toBe(201)
    expect((await create({ network_mode: 'open' })).body.code).toBe('forbidden')
    expect((await create({ limits: { cpu: 17 } })).body.code).toBe('invalid_argument')
    expect((await create({ lifetime_seconds: 700_000 })).body.code).toBe('invalid_argument')
    // Nothing that both allow is left.
    await set({ networks: ['open'] })
    expect((await create()).body).toMatchObject({ code: 'forbidden', details: { policy: 'networks' } })
  })

  it.skipIf(skipped)('apply to starts, wakes and forks of existing sessions', async () => {
    const { create, set, post } = await begin()
    const { id } = (await create({ limits: { cpu: 4 }, wake_on_use: true, ttl_seconds: 3600 })).body
    await set({ max: { cpu: 2 } })
    // A running session goes on.
    expect((await post(`/v1/sessions/${id}/run`, { cmd: 'true' })).status).toBe(200)
    expect((await post(`/v1/sessions/${id}/fork`)).body.details).toMatchObject({ policy: 'max.cpu' })
    expect((await post(`/v1/sessions/${id}/stop`)).status).toBe(200)
    expect((await post(`/v1/sessions/${id}/start`)).body.details).toMatchObject({ policy: 'max.cpu' })
    expect((await post(`/v1/sessions/${id}/run`, { cmd: 'true' })).body.details).toMatchObject({
      policy: 'max.cpu',
    })
    await set({ max_ttl_seconds: 60, max_lifetime_seconds: 90 })
    const started = await post(`/v1/sessions/${id}/start`)
    expect(started.body).toMatchObject({ status: 'running', ttl_seconds: 60, lifetime_seconds: 90 })
    await set({ max_ttl_seconds: 30, max_lifetime_seconds: 40 })
    const [copy] = (await post(`/v1/sessions/${id}/fork`)).body.sessions
    expect(copy).toMatchObject({ ttl_seconds: 30, lifetime_seconds: 40 })
  })

  it.skipIf(skipped)('apply to sessions from snapshots', async () => {
    const { create, set, post } = await begin()
    const { id } = (await create({ image: 'node', limits: { cpu: 4 }, network_mode: 'open' })).body
    const snapshot_id = (await post(`/v1/sessions/${id}/snapshots`)).body.id
    await set({ images: ['python:*'] })
    expect((await create({ snapshot_id })).body.details).toMatchObject({ policy: 'images' })
    await set({ images: ['node'], networks: ['none'], max: { cpu: 2 } })
    const { body } = await create({ snapshot_id })
    expect(body).toMatchObject({ image: 'node', network_mode: 'none', limits: { cpu: 2 } })
    expect(body.notes.join()).toMatch(/cpu.*network_mode/)
    expect((await create({ snapshot_id, network_mode: 'open' })).body.details).toMatchObject({
      policy: 'networks',
    })
  })

  it.skipIf(skipped)('end extensions at the longest lifetime', async () => {
    const { create, set, post } = await begin()
    await set({ max_ttl_seconds: 100, max_lifetime_seconds: 200 })
    const { id } = (await create({ lifetime_seconds: 50 })).body
    expect(
      (await post(`/v1/sessions/${id}/extend`, { ttl_seconds: 90 })).body.lifetime_seconds,
    ).toBeGreaterThan(89)
    expect((await post(`/v1/sessions/${id}/extend`, { ttl_seconds: 101 })).body.details.policy).toBe(
      'max_ttl_seconds',
    )
    await set({ max_lifetime_seconds: 200 })
    expect((await post(`/v1/sessions/${id}/extend`, { ttl_seconds: 300 })).body.details.policy).toBe(
      'max_lifetime_seconds',
    )
  })

  it.skipIf(skipped)('apply to fronts', async () => {
    const listen = { listen: '127.0.0.1:0' }
    const { daemon, key, set } = await begin({
      fronts: { e2b: listen, daytona: listen, vercel: listen, opensandbox: listen },
    })
    await set({
      images: ['python:*'],
      networks: ['none'],
      max: { cpu: 2 },
      max_ttl_seconds: 60,
      max_lifetime_seconds: 70,
    })
    const { fronts } = daemon.daemon
    const send = async (url: string, headers: Record<string, string>, body?: object) => {
      const method = body ? 'POST' : 'GET'
      const all = { ...headers, ...(body ? { 'content-type': 'application/json' } : {}) }
      const answer = await fetch(url, { method, headers: all, body: body && JSON.stringify(body) })
      return { status: answer.status, text: await answer.text() }
    }
    const bearer = { authorization: `Bearer ${key}` }
    const ways: Record<string, (body: object) => Promise<{ status: number; text: string }>> = {
      e2b: (body) => send(`${fronts.e2b}/sandboxes`, { 'x-api-key': key }, { templateID: 'base', ...body }),
      daytona: (body) => send(`${fronts.daytona}/api/sandbox`, bearer, body),
      vercel: (body) => send(`${fronts.vercel}/v2/sandboxes`, bearer, { projectId: 'p', ...body }),
      opensandbox: (body) =>
        send(
          `${fronts.opensandbox}/v1/sandboxes`,
          { 'open-sandbox-api-key': key },
          { image: { uri: 'python:3.12' }, resourceLimits: {}, entrypoint: ['sleep', 'infinity'], ...body },
        ),
    }
    // The vendors' defaults fit the policy.
    for (const [name, create] of Object.entries(ways)) {
      const answer = await create(name === 'e2b' ? { allow_internet_access: true } : {})
      expect(answer.status, `${name}: ${answer.text}`).toBeLessThan(300)
    }
    const { sessions } = (await daemon.call('GET', '/v1/sessions', undefined, { key })).body
    expect(sessions).toHaveLength(4)
    for (const session of sessions) {
      expect(session).toMatchObject({ image: 'python:3.12', network_mode: 'none' })
      expect(session.ttl_seconds).toBeLessThanOrEqual(60)
      expect(session.lifetime_seconds).toBeLessThanOrEqual(70)
    }
    const wrong: Array<[string, object, RegExp]> = [
      ['e2b', { templateID: 'node' }, /not found/],
      ['e2b', { timeout: 71 }, /policy \(max_lifetime_seconds\)/],
      ['daytona', { snapshot: 'node' }, /not found/],
      ['daytona', { buildInfo: { dockerfileContent: 'FROM node\n' } }, /policy \(images\)/],
      ['daytona', { cpu: 3 }, /policy \(max.cpu\)/],
      ['daytona', { autoStopInterval: 2 }, /policy \(max_ttl_seconds\)/],
      ['vercel', { image: 'node' }, /policy \(images\)/],
      ['vercel', { resources: { vcpus: 4, memory: 100 } }, /policy \(max.cpu\)/],
      ['vercel', { networkPolicy: { mode: 'allow-all' } }, /policy \(networks\)/],
      ['vercel', { timeout: 71_000 }, /policy \(max_lifetime_seconds\)/],
      ['opensandbox', { image: { uri: 'node' } }, /policy \(images\)/],
      ['opensandbox', { timeout: 71 }, /policy \(max_lifetime_seconds\)/],
    ]
    for (const [name, body, reason] of wrong) {
      const { status, text } = await ways[name]!(body)
      expect(status, `${name} ${JSON.stringify(body)}: ${text}`).toBeGreaterThanOrEqual(400)
      expect(status, `${name} ${JSON.stringify(body)}: ${text}`).toBeLessThan(500)
      expect(text).toMatch(reason)
    }
    expect((await daemon.call('GET', '/v1/sessions', undefined, { key })).body.sessions).toHaveLength(4)
    // Lists of images show what the project may use.
    for (const [url, headers] of [
      [`${fronts.e2b}/templates`, { 'x-api-key': key }],
      [`${fronts.daytona}/api/snapshots`, bearer],
    ] as const) {
      const { text } = await send(url, headers)
      expect(text).toContain('python:3.13')
      expect(text).not.toContain('node')
    }
  })
})

describe('a runtime', () => {
  it('is looked for among the images that the policy allows', async () => {
    const provider = new MemoryProvider({
      createOptions: ['resources', 'providerOptions', 'image'],
    }) as unknown as DaemonProvider
    const offered: Array<readonly string[]> = []
    provider.imageForRuntime = async (_, among) => {
      offered.push(among)
      return among[0]!
    }
    const daemon = await startTestDaemon({ allowed_images: ['host', 'node'] }, { provider })
    cleanUps.push(() => daemon.stop())
    await daemon.call('PUT', '/v1/projects/default/policy', { images: ['node'] })
    const { status, body } = await daemon.call('POST', '/v1/sessions', { runtime: 'node24' })
    expect({ status, image: body.image, offered }).toEqual({
      status: 201,
      image: 'node',
      offered: [['node']],
    })
  })
})

describe('the pool', () => {
  it('is used as the policy says', async () => {
    const provider = new MemoryProvider({
      createOptions: ['resources', 'providerOptions', 'image'],
    }) as unknown as DaemonProvider
    let handed = 0
    provider.handOver = async () => {
      handed += 1
    }
    const daemon: TestDaemon = await startTestDaemon(
      { pool: [{ size: 2 }], allowed_images: ['host', 'node'] },
      { provider },
    )
    cleanUps.push(() => daemon.stop())
    const ready = async () =>
      Number(
        /sandkasten_pool_ready\{[^}]*\} (\d+)/.exec((await daemon.call('GET', '/metrics')).body)?.[1] ?? 0,
      )
    const policy = (body: object) => daemon.call('PUT', '/v1/projects/default/policy', body)
    for (const [pool, expected] of [
      [[], 0],
      [['node'], 0],
      [['ho*'], 1],
      [undefined, 2],
    ] as const) {
      await expect.poll(ready).toBe(2)
      expect((await policy(pool === undefined ? {} : { pool })).status).toBe(200)
      await daemon.session()
      expect(handed, JSON.stringify(pool)).toBe(expected)
    }
  })
})
