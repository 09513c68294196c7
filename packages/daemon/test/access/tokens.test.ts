import { createHmac } from 'node:crypto'
import { exportSPKI } from 'jose'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { postgresMissing, startPostgres, type TestPostgres } from '../../../database/src/testing/postgres.ts'
import { eventsOf, startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'
import {
  audience,
  claims,
  issuer,
  type KeyServer,
  now,
  rawToken,
  type SigningKey,
  sign,
  signingKey,
  signSecret,
  startKeyServer,
} from './issuer.ts'

const missing = await postgresMissing()
let postgres: TestPostgres | undefined
let server: KeyServer
let es: SigningKey
let rs: SigningKey
beforeAll(async () => {
  if (!missing) postgres = await startPostgres()
  es = await signingKey('es-1')
  rs = await signingKey('rs-1', 'RS256')
  server = await startKeyServer([es.jwk, rs.jwk])
})
afterAll(async () => {
  await server?.close()
  await postgres?.stop()
})

const cleanUps: Array<() => unknown> = []
afterEach(async () => {
  while (cleanUps.length > 0) await cleanUps.pop()!()
})

describe.each([
  ['SQLite', undefined],
  [`Postgres${missing ? ` (skipped: ${missing})` : ''}`, missing],
])('tokens on %s', (kind, skipped) => {
  let count = 0
  async function begin(jwt: object = {}, settings: Record<string, unknown> = {}): Promise<TestDaemon> {
    const database = kind === 'SQLite' ? {} : { db_url: await postgres!.database(`tokens${count++}`) }
    const daemon = await startTestDaemon({
      jwt: { jwks_url: server.url, issuer, audience, ...jwt },
      ...database,
      ...settings,
    })
    cleanUps.push(() => daemon.stop())
    return daemon
  }
  const project = async (daemon: TestDaemon, name: string) =>
    (await daemon.call('POST', '/v1/projects', { name })).body.id as string
  const whoami = (daemon: TestDaemon, key: string) => daemon.call('GET', '/v1/whoami', undefined, { key })

  it.skipIf(skipped)('keeps two tenants apart, on ES256 and RS256', async () => {
    const daemon = await begin()
    const ids = { acme: await project(daemon, 'acme'), globex: await project(daemon, 'globex') }
    const acme = await sign(es)
    const globex = await sign(rs, claims({ tenant_id: 'globex', subject_id: 'user-2' }))
    expect((await whoami(daemon, acme)).body).toMatchObject({
      project_id: ids.acme,
      subject: 'user-1',
      scopes: ['read', 'exec'],
      operator: false,
    })
    expect((await whoami(daemon, globex)).body.project_id).toBe(ids.globex)
    const created = await daemon.call('POST', '/v1/sessions', { name: 'one' }, { key: acme })
    expect(created.status).toBe(201)
    const path = `/v1/sessions/${created.body.id}`
    expect((await daemon.call('POST', `${path}/exec`, { cmd: 'echo hi' }, { key: acme })).body.output).toBe(
      'hi\n',
    )
    expect((await daemon.call('GET', path, undefined, { key: globex })).status).toBe(404)
    expect((await daemon.call('DELETE', path, undefined, { key: globex })).status).toBe(404)
    expect((await daemon.call('GET', '/v1/sessions', undefined, { key: globex })).body.sessions).toEqual([])
    // The same name is free in the other project.
    expect((await daemon.call('POST', '/v1/sessions', { name: 'one' }, { key: globex })).status).toBe(201)
  })

  it.skipIf(skipped)(
    'records the subject with sessions and in the audit log, and filters by it',
    async () => {
      const daemon = await begin()
      const id = await project(daemon, 'acme')
      const [one, two] = await Promise.all([sign(es), sign(es, claims({ subject_id: 'user-2' }))])
      const first = (await daemon.call('POST', '/v1/sessions', {}, { key: one })).body
      const second = (await daemon.call('POST', '/v1/sessions', {}, { key: two })).body
      expect(first.subject).toBe('user-1')
      const list = async (query: string) =>
        (await daemon.call('GET', `/v1/sessions${query}`, undefined, { key: one })).body.sessions.map(
          (session: { id: string }) => session.id,
        )
      // A filter, not a wall: tokens of one project see all of its sessions.
      expect((await list('')).sort()).toEqual([first.id, second.id].sort())
      expect(await list('?subject=user-2')).toEqual([second.id])
      expect(await list('?subject=user-3')).toEqual([])
      // A fork belongs to the subject that forked.
      await daemon.call('POST', `/v1/sessions/${first.id}/fork`, {}, { key: two })
      expect(await list('?subject=user-2')).toHaveLength(2)
      const key = (await daemon.call('POST', '/v1/keys', { name: 'k', scopes: ['admin'], project_id: id }))
        .body.key
      const { entries } = (await daemon.call('GET', '/v1/audit', undefined, { key })).body
      const creates = entries.filter((entry: { action: string }) => entry.action === 'createSession')
      expect(creates.map((entry: { subject: string }) => entry.subject)).toEqual(['user-2', 'user-1'])
      expect(creates[0].key_id).not.toBe(creates[1].key_id)
      await daemon.restart()
      expect(
        (await daemon.call('GET', `/v1/sessions/${first.id}`, undefined, { key: one })).body.subject,
      ).toBe('user-1')
    },
  )

  it.skipIf(skipped)('names and idempotency keys belong to the project, not to the subject', async () => {
    const daemon = await begin()
    await project(daemon, 'acme')
    const [one, two] = await Promise.all([sign(es), sign(es, claims({ subject_id: 'user-2' }))])
    const body = { idempotency_key: 'once' }
    const first = await daemon.call('POST', '/v1/sessions', body, { key: one })
    const again = await daemon.call('POST', '/v1/sessions', body, { key: two })
    expect([first.status, again.status]).toEqual([201, 200])
    expect(again.body.id).toBe(first.body.id)
  })

  it.skipIf(skipped)(
    'creates a project on first use only if configured, once for concurrent requests',
    async () => {
      const closed = await begin()
      const refused = await whoami(closed, await sign(es, claims({ tenant_id: 'fresh' })))
      expect(refused.status).toBe(403)
      expect(refused.body.detail).toContain('“fresh”')
      expect(refused.body.hint).toContain('create_projects')

      const daemon = await begin({ create_projects: true })
      const tokens = await Promise.all(
        Array.from({ length: 20 }, (_, at) => sign(es, claims({ tenant_id: 'fresh', subject_id: `u${at}` }))),
      )
      const answers = await Promise.all(tokens.map((token) => whoami(daemon, token)))
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
      expect(new Set(answers.map(({ body }) => body.project_id)).size).toBe(1)
      const { projects } = (await daemon.call('GET', '/v1/projects')).body
      expect(projects.map(({ name }: { name: string }) => name).sort()).toEqual(['default', 'fresh'])
      // A token that may do nothing creates nothing.
      await whoami(daemon, await sign(es, claims({ tenant_id: 'other', scopes: 'openid' })))
      expect((await daemon.call('GET', '/v1/projects')).body.projects).toHaveLength(2)
    },
  )

  it.skipIf(skipped)('keeps tokens out of the operator’s project unless configured', async () => {
    const token = await sign(es, claims({ tenant_id: 'default', scopes: ['admin'] }))
    const daemon = await begin()
    expect((await whoami(daemon, token)).status).toBe(403)
    const open = await begin({ allow_operator: true })
    expect((await whoami(open, token)).body).toMatchObject({ operator: true, project_id: 'default' })
  })

  it.skipIf(skipped)('derives access for fronts that ends with the token', async () => {
    const daemon = await begin({ clock_tolerance_seconds: 0 }, { fronts: { e2b: { listen: '127.0.0.1:0' } } })
    const projectId = await project(daemon, 'acme')
    const token = await sign(es, claims({ exp: now() + 4, scopes: 'exec' }))
    const front = daemon.daemon.fronts.e2b!
    const created = await fetch(`${front}/sandboxes`, {
      method: 'POST',
      headers: { 'x-api-key': token, 'content-type': 'application/json' },
      body: JSON.stringify({ templateID: 'base' }),
    })
    expect(created.status).toBe(201)
    const { sandboxID, envdAccessToken } = (await created.json()) as Record<string, string>
    const readFile = () =>
      fetch(`${front}/files?path=${encodeURIComponent('missing')}&username=user`, {
        headers: {
          'x-access-token': envdAccessToken!,
          'e2b-sandbox-id': sandboxID!,
          'e2b-sandbox-port': '49983',
        },
      }).then(({ status }) => status)
    expect(await readFile()).toBe(404)
    const row = (await daemon.call('GET', `/v1/sessions?status=running`, undefined, { key: token })).body
      .sessions[0]
    expect(row).toMatchObject({ id: sandboxID, subject: 'user-1' })
    // It is not a key of the project.
    const keys = await daemon.call('GET', `/v1/keys?project_id=${projectId}`)
    expect(keys.body.keys).toEqual([])
    await expect.poll(readFile, { timeout: 10_000 }).toBe(401)
  })
})

describe('a token', () => {
  let daemon: TestDaemon
  let readsBefore = 0
  beforeAll(async () => {
    daemon = await startTestDaemon({
      jwt: { jwks_url: server.url, issuer, audience, algorithms: ['ES256', 'RS256'] },
    })
    await daemon.call('POST', '/v1/projects', { name: 'acme' })
    readsBefore = server.reads
  })
  afterAll(() => daemon?.stop())
  const ask = (key: string) => daemon.call('GET', '/v1/whoami', undefined, { key })

  const text = (payload: object) => JSON.stringify(payload)
  const hmac = (secret: string, header: object, payload: object) => {
    const signed = rawToken(text(header), text(payload)).replace(/\.$/, '')
    return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`
  }

  it('is accepted when it is valid', async () => {
    expect((await ask(await sign(es))).status).toBe(200)
    expect((await ask(await sign(rs))).status).toBe(200)
    // Without a key id, the type decides.
    expect((await ask(await sign(es, claims(), { kid: undefined }))).status).toBe(200)
    expect((await ask(await sign(es, claims({ aud: ['other', audience] })))).status).toBe(200)
    expect((await ask(await sign(es, claims({ scopes: ['read', 'other'] })))).body.scopes).toEqual(['read'])
  })

  const otherKey = signingKey('es-1')
  const refused: Array<[string, () => Promise<string> | string, RegExp]> = [
    ['that is forged', async () => sign(await otherKey), /valid API key/],
    ['with a changed claim', async () => changed(await sign(es)), /valid API key/],
    ['without its signature', async () => (await sign(es)).replace(/[^.]+$/, ''), /valid API key/],
    ['with alg none', () => rawToken(text({ alg: 'none' }), text(claims())), /valid API key/],
    ['with alg None', () => rawToken(text({ alg: 'None' }), text(claims())), /valid API key/],
    [
      'with the public key as an HMAC secret (PEM)',
      async () => hmac(await exportSPKI(rs.publicKey), { alg: 'HS256', kid: 'rs-1' }, claims()),
      /valid API key/,
    ],
    [
      'with the public key as an HMAC secret (modulus)',
      () => hmac(rs.jwk.n!, { alg: 'HS256', kid: 'rs-1' }, claims()),
      /valid API key/,
    ],
    [
      'that brings its own key',
      async () => sign(await otherKey, claims(), { jwk: (await otherKey).jwk, kid: 'es-1' }),
      /valid API key/,
    ],
    [
      'with a critical extension',
      () =>
        sign(es, claims(), { crit: ['exotic'], exotic: true }).catch(() =>
          rawToken(text({ alg: 'ES256', kid: 'es-1', crit: ['exotic'], exotic: true }), text(claims()), 'x'),
        ),
      /valid API key/,
    ],
    ['of another issuer', () => sign(es, claims({ iss: 'https://evil.example.com/' })), /valid API key/],
    ['without an issuer', () => sign(es, claims({ iss: undefined })), /valid API key/],
    ['for another audience', () => sign(es, claims({ aud: 'other' })), /“aud”.*not accepted/],
    ['without an audience', () => sign(es, claims({ aud: undefined })), /“aud”.*missing/],
    ['that has expired', () => sign(es, claims({ iat: now() - 900, exp: now() - 60 })), /has expired/],
    ['without an end', () => sign(es, claims({ exp: undefined })), /“exp”.*missing/],
    ['that is not valid yet', () => sign(es, claims({ nbf: now() + 120 })), /not valid yet/],
    ['from the future', () => sign(es, claims({ iat: now() + 120 })), /“iat”/],
    ['that is too old', () => sign(es, claims({ iat: now() - 90_000 })), /has expired/],
    ['without a time of issue', () => sign(es, claims({ iat: undefined })), /“iat”.*missing/],
    ['without a tenant', () => sign(es, claims({ tenant_id: undefined })), /no claim “tenant_id”/],
    ['with a tenant that is no text', () => sign(es, claims({ tenant_id: { a: 1 } })), /“tenant_id”/],
    [
      'with control characters in its subject',
      () => sign(es, claims({ subject_id: 'a\nb' })),
      /“subject_id”/,
    ],
    ['with a long subject', () => sign(es, claims({ subject_id: 'x'.repeat(201) })), /“subject_id”/],
    ['with odd scopes', () => sign(es, claims({ scopes: { admin: true } })), /“scopes”/],
    ['that is oversized', () => sign(es, claims({ padding: 'x'.repeat(7000) })), /valid API key/],
    [
      'with a payload that is no object',
      () => rawToken(text({ alg: 'ES256', kid: 'es-1' }), '[1]', 'x'),
      /valid API key/,
    ],
  ]
  it.each(refused)('%s is refused', async (_, make, message) => {
    const answer = await ask(await make())
    expect(answer.status).toBe(401)
    expect(answer.body.detail).toMatch(message)
    expect(answer.headers.get('www-authenticate')).toBe('Bearer')
  })

  it('tolerates clocks that differ a little', async () => {
    expect((await ask(await sign(es, claims({ iat: now() - 900, exp: now() - 5 })))).status).toBe(200)
    expect((await ask(await sign(es, claims({ iat: now() + 5, nbf: now() + 5 })))).status).toBe(200)
  })

  it('counts the last of two equal claims, for every check', async () => {
    const twice = async (first: object, second: object) => {
      const payload = `${text(first).slice(0, -1)},${text(second).slice(1)}`
      const { subtle } = globalThis.crypto
      const input = `${Buffer.from(text({ alg: 'ES256', kid: 'es-1' })).toString('base64url')}.${Buffer.from(payload).toString('base64url')}`
      const signature = await subtle.sign(
        { name: 'ECDSA', hash: 'SHA-256' },
        es.privateKey,
        Buffer.from(input),
      )
      return `${input}.${Buffer.from(signature).toString('base64url')}`
    }
    expect((await ask(await twice({ tenant_id: 'none-such' }, claims()))).body.subject).toBe('user-1')
    expect((await ask(await twice(claims(), { tenant_id: 'none-such' }))).status).toBe(403)
    expect((await ask(await twice(claims(), { exp: now() - 600 }))).status).toBe(401)
  })

  it('without a scope of ours may do nothing', async () => {
    expect((await ask(await sign(es, claims({ scopes: 'openid email' })))).status).toBe(403)
    expect((await ask(await sign(es, claims({ scopes: undefined })))).status).toBe(403)
  })

  it('cannot use a scope above its own', async () => {
    const token = await sign(es, claims({ scopes: 'read' }))
    const create = await daemon.call('POST', '/v1/sessions', {}, { key: token })
    expect(create.body.code).toBe('forbidden')
  })

  it('of another issuer causes no request for keys', async () => {
    for (let at = 0; at < 5; at += 1)
      await ask(await sign(await signingKey(`k${at}`), claims({ iss: 'https://evil.example.com/' })))
    expect(server.reads).toBe(readsBefore)
  })

  it('opens a WebSocket as a subprotocol', async () => {
    const token = await sign(es)
    const { body: session } = await daemon.call('POST', '/v1/sessions', {}, { key: token })
    const path = `/v1/sessions/${session.id}/terminals`
    const { body: terminal } = await daemon.call('POST', path, {}, { key: token })
    const open = (key: string) =>
      new Promise<string>((resolve) => {
        const url = `${daemon.daemon.url.replace('http', 'ws')}${path}/${terminal.terminal_id ?? terminal.id}/ws`
        const socket = new WebSocket(url, ['sandkasten', `sandkasten.key.${key}`])
        socket.onopen = () => {
          socket.close()
          resolve('open')
        }
        socket.onerror = () => resolve('refused')
      })
    expect(await open(token)).toBe('open')
    expect(await open(changed(token))).toBe('refused')
  })
})

describe('a secret (HS256)', () => {
  const secret = 'a-secret-of-the-issuer-with-32-bytes'
  const begin = async (jwt: object = {}) => {
    const daemon = await startTestDaemon({ jwt: { secret, create_projects: true, ...jwt } })
    cleanUps.push(() => daemon.stop())
    return (key: string) => daemon.call('GET', '/v1/whoami', undefined, { key })
  }

  it('accepts its tokens, and no others', async () => {
    const ask = await begin()
    expect((await ask(await signSecret(secret))).status).toBe(200)
    expect((await ask(await signSecret(`${secret}x`))).status).toBe(401)
    expect((await ask(await sign(es))).status).toBe(401)
    expect((await ask(rawToken('{"alg":"none"}', JSON.stringify(claims())))).status).toBe(401)
    expect((await ask(await signSecret(secret, claims({ exp: now() - 60, iat: now() - 90 })))).status).toBe(
      401,
    )
  })

  it('gives tokens without scopes the default scope', async () => {
    const ask = await begin({ default_scope: 'read' })
    expect((await ask(await signSecret(secret, claims({ scopes: undefined })))).body.scopes).toEqual(['read'])
    expect((await ask(await signSecret(secret, claims({ scopes: '' })))).status).toBe(403)
  })

  it('reads claims with other names', async () => {
    const ask = await begin({
      project_claim: 'https://example.com/org',
      subject_claim: 'sub',
      scopes_claim: 'scope',
    })
    const payload = {
      iat: now(),
      exp: now() + 60,
      'https://example.com/org': 'acme',
      sub: 'me',
      scope: 'exec',
    }
    expect((await ask(await signSecret(secret, payload))).body).toMatchObject({
      subject: 'me',
      scopes: ['exec'],
    })
  })
})

describe('a stream that a token opened', () => {
  it('ends when the token expires', { timeout: 30_000 }, async () => {
    const daemon = await startTestDaemon({
      jwt: { jwks_url: server.url, issuer, audience, create_projects: true, clock_tolerance_seconds: 0 },
    })
    cleanUps.push(() => daemon.stop())
    const expires = now() + 3
    const response = await daemon.fetch('/v1/events', { key: await sign(es, claims({ exp: expires })) })
    expect(response.status).toBe(200)
    for await (const _ of eventsOf(response));
    expect(Date.now() / 1000).toBeGreaterThanOrEqual(expires)
    expect(Date.now() / 1000).toBeLessThan(expires + 10)
  })

  it('ends when the signing key is removed from the key set', { timeout: 30_000 }, async () => {
    const [old, next] = await Promise.all([signingKey('old'), signingKey('next')])
    const keys = await startKeyServer([old.jwk])
    cleanUps.push(() => keys.close())
    const daemon = await startTestDaemon({
      jwt: {
        jwks_url: keys.url,
        issuer,
        audience,
        create_projects: true,
        jwks_refresh_seconds: 1,
        jwks_cooldown_seconds: 1,
      },
    })
    cleanUps.push(() => daemon.stop())
    const response = await daemon.fetch('/v1/events', { key: await sign(old) })
    expect(response.status).toBe(200)
    keys.keys = [next.jwk]
    for await (const _ of eventsOf(response));
    await expect
      .poll(async () => (await daemon.fetch('/v1/whoami', { key: await sign(old) })).status)
      .toBe(401)
  })
})

/** The token with another tenant, and its old signature. */
function changed(token: string): string {
  const [header, , signature] = token.split('.')
  const payload = Buffer.from(JSON.stringify(claims({ tenant_id: 'globex' }))).toString('base64url')
  return `${header}.${payload}.${signature}`
}
