import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'

let daemon: TestDaemon
let operations: Array<{ method: string; path: string; scope: string; body: boolean }>
beforeAll(async () => {
  daemon = await startTestDaemon({ quotas: { sessions: 5 } })
  const { body } = await daemon.call('GET', '/openapi.json')
  operations = Object.entries<Record<string, { 'x-scope': string; requestBody?: object }>>(
    body.paths,
  ).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      scope: operation['x-scope'],
      body: operation.requestBody !== undefined,
    })),
  )
})
afterAll(() => daemon?.stop())

async function makeKey(scopes: string[], project_id?: string): Promise<{ key: string; id: string }> {
  const answer = await daemon.call('POST', '/v1/keys', { name: scopes.join(), scopes, project_id })
  expect(answer.status).toBe(201)
  return answer.body
}

async function makeProject(name: string, quotas?: object): Promise<string> {
  return (await daemon.call('POST', '/v1/projects', { name, quotas })).body.id
}

describe('every route', () => {
  const fill = (path: string) => path.replace(/\{\w+\}/g, 'aaaaaaaaaaaaaaaa')
  const ask = (method: string, path: string, key: string) =>
    daemon.call(method, fill(path), method === 'GET' || method === 'DELETE' ? undefined : {}, { key })

  it('needs a valid key, and answers all other requests alike', async () => {
    const revoked = await makeKey(['admin'])
    expect((await daemon.call('DELETE', `/v1/keys/${revoked.id}`)).body).toEqual({ revoked: true })
    const closed = operations.filter(({ scope }) => scope !== 'public')
    expect(closed.length).toBeGreaterThan(45)
    const open = operations.filter(({ scope }) => scope === 'public').map(({ path }) => path)
    expect(open.sort()).toEqual(['/healthz', '/openapi.json', '/readyz'])
    for (const { method, path } of closed) {
      const answers = await Promise.all(['', 'wrong', revoked.key].map((key) => ask(method, path, key)))
      const [first] = answers
      expect(first!.status, `${method} ${path}`).toBe(401)
      expect(first!.headers.get('content-type')).toMatch(/^application\/problem\+json/)
      for (const { status, body } of answers) {
        const { request_id: _, ...said } = body
        const { request_id: __, ...before } = first!.body
        expect({ status, said }).toEqual({ status: 401, said: before })
      }
    }
  })

  it('refuses a key whose scope is too small', async () => {
    const held = { read: (await makeKey(['read'])).key, exec: (await makeKey(['exec'])).key }
    for (const { method, path, scope } of operations) {
      if (scope === 'exec') expect((await ask(method, path, held.read)).body.code, path).toBe('forbidden')
      if (scope === 'admin' || scope === 'operator')
        expect((await ask(method, path, held.exec)).body.code, path).toBe('forbidden')
    }
  })

  it('answers for ids of another project as for unknown ids', async () => {
    const project = await makeProject('other')
    const stranger = (await makeKey(['admin'], project)).key
    const id = await daemon.session({ name: 'mine' })
    await daemon.call('POST', `/v1/sessions/${id}/run`, { cmd: 'true', exec_id: 'e' })
    const { body: snapshot } = await daemon.call('POST', `/v1/sessions/${id}/snapshots`, {})
    const mine = (path: string) =>
      path
        .replace('{id}', id)
        .replace('{snapshot_id}', snapshot.id)
        .replace('{exec_id}', 'e')
        .replace(/\{\w+\}/g, 'aaaaaaaaaaaaaaaa')
    const none = (path: string) => path.replace(/\{\w+\}/g, 'aaaaaaaaaaaaaaaa')
    const bodies: Record<string, object> = {
      exec: { cmd: 'true' },
      run: { cmd: 'true' },
      extend: { ttl_seconds: 5 },
      write: { path: 'a', content: '' },
      shells: { name: 'x' },
      mkdir: { path: 'a' },
      move: { from: 'a', to: 'b' },
      chmod: { path: 'a', mode: 0 },
      symlink: { target: 'a', path: 'b' },
      resize: { cols: 1, rows: 1 },
      ports: { port: 1 },
      network: { allow: [] },
    }
    for (const { method, path, scope } of operations) {
      if (!path.includes('{id}') && !path.includes('{snapshot_id}')) continue
      expect(scope).not.toBe('public')
      const known = bodies[path.split('/').at(-1)!]
      const body = { POST: known ?? {}, PUT: known ?? 'x', PATCH: { labels: {} } }[method as string]
      const query = path.includes('/files') || path.includes('/fs/read') ? '?path=a' : ''
      const [theirs, nobodys] = await Promise.all(
        [mine(path), none(path)].map((where) => daemon.call(method, where + query, body, { key: stranger })),
      )
      const same = ({ status, body }: typeof theirs & object) => ({
        status,
        code: body.code,
        text: body.detail
          .replaceAll(id, 'ID')
          .replaceAll(snapshot.id, 'ID')
          .replaceAll('aaaaaaaaaaaaaaaa', 'ID'),
      })
      expect(theirs!.status, `${method} ${path}: ${JSON.stringify(theirs!.body)}`).toBe(404)
      expect(same(theirs!)).toEqual(same(nobodys!))
    }
    expect((await daemon.call('GET', '/v1/sessions', undefined, { key: stranger })).body).toEqual({
      sessions: [],
    })
    expect((await daemon.call('GET', '/v1/snapshots', undefined, { key: stranger })).body).toEqual({
      snapshots: [],
    })
    expect(
      (await daemon.call('GET', '/v1/events?limit=100&after=0', undefined, { key: stranger })).body.events,
    ).toEqual([])
    expect(
      (await daemon.call('GET', '/v1/audit', undefined, { key: stranger })).body.entries.every(
        (entry: { key_id: string }) => entry.key_id !== 'config',
      ),
    ).toBe(true)
    expect((await daemon.call('GET', '/metrics', undefined, { key: stranger })).status).toBe(403)
    expect(
      (await daemon.call('POST', '/v1/sessions', { snapshot_id: snapshot.id }, { key: stranger })).status,
    ).toBe(404)
    expect(
      (await daemon.call('GET', '/v1/keys?project_id=default', undefined, { key: stranger })).status,
    ).toBe(404)
    // The same name in another project is free.
    const twin = await daemon.call('POST', '/v1/sessions', { name: 'mine' }, { key: stranger })
    expect(twin.status).toBe(201)
    await daemon.call('DELETE', `/v1/sessions/${twin.body.id}`, undefined, { key: stranger })
    await daemon.call('DELETE', `/v1/sessions/${id}`)
  })
})

describe('keys', () => {
  it('are shown once, listed without the secret, and expire', async () => {
    const { key, id } = await makeKey(['exec'])
    expect(key).toMatch(/^sk-sandkasten-[a-z2-7]{32}$/)
    const list = await daemon.call('GET', '/v1/keys')
    expect(JSON.stringify(list.body)).not.toContain(key)
    expect(list.body.keys).toContainEqual(expect.objectContaining({ id, scopes: ['exec'], revoked_at: null }))
    expect((await daemon.call('GET', '/v1/whoami', undefined, { key })).body).toMatchObject({
      key_id: id,
      operator: false,
    })
    const short = await daemon.call('POST', '/v1/keys', {
      name: 's',
      scopes: ['read'],
      expires_in_seconds: 0.001,
    })
    await expect
      .poll(async () => (await daemon.call('GET', '/v1/whoami', undefined, { key: short.body.key })).status)
      .toBe(401)
    expect((await daemon.call('DELETE', `/v1/keys/${id}`)).body).toEqual({ revoked: true })
    expect((await daemon.call('DELETE', `/v1/keys/${id}`)).body).toEqual({ revoked: false })
    expect((await daemon.call('GET', '/v1/whoami', undefined, { key })).status).toBe(401)
  })
})

describe('quotas', () => {
  it('answer 429 and name the exceeded quota', async () => {
    const project = await makeProject('small', { sessions: 2, mem_mb: 1200 })
    const { key } = await makeKey(['admin'], project)
    const make = () => daemon.call('POST', '/v1/sessions', {}, { key })
    const answers = await Promise.all([make(), make(), make()])
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 201, 429])
    const refused = answers.find(({ status }) => status === 429)!
    expect(refused.body).toMatchObject({
      code: 'quota_exceeded',
      details: { quota: 'sessions', limit: 2, used: 2 },
    })
    expect((await daemon.call('GET', '/v1/whoami', undefined, { key })).body).toMatchObject({
      used: { sessions: 2, mem_mb: 1024 },
    })
    await daemon.call('PATCH', `/v1/projects/${project}`, { quotas: { mem_mb: 1200 } })
    expect((await make()).body).toMatchObject({
      details: { quota: 'mem_mb', limit: 1200, used: 1024, wanted: 512 },
    })
    for (const { body } of answers)
      if (body.id) await daemon.call('DELETE', `/v1/sessions/${body.id}`, undefined, { key })
  })
})

describe('records', () => {
  it('record callers, actions and changes of sessions', async () => {
    const id = await daemon.session()
    await daemon.call('POST', `/v1/sessions/${id}/stop`, {}, { headers: { 'x-request-id': 'mine-1' } })
    await daemon.call('DELETE', `/v1/sessions/${id}`)
    await daemon.context.events.flush()
    const { body } = await daemon.call('GET', `/v1/events?limit=100&after=0&session_id=${id}`)
    expect(body.events.map(({ type }: { type: string }) => type)).toEqual([
      'session.running',
      'session.stopped',
      'session.destroyed',
    ])
    const { entries } = (await daemon.call('GET', '/v1/audit')).body
    expect(entries).toContainEqual(
      expect.objectContaining({
        action: 'stopSession',
        target: id,
        key_id: 'config',
        request_id: 'mine-1',
        status: 200,
      }),
    )
    const metrics = await (await daemon.fetch('/metrics')).text()
    expect(metrics).toMatch(/sandkasten_http_requests_total\{route="createSession",status="201"\} \d/)
    expect(metrics).not.toContain(id)
  })
})
