import { createHmac } from 'node:crypto'
import type { JWTPayload } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'
import {
  audience,
  claims,
  issuer,
  type KeyServer,
  now,
  type SigningKey,
  sign,
  signingKey,
  startKeyServer,
} from './issuer.ts'
import { sessionWithServer, visit } from './preview-helper.ts'

/** Tokens in previews and fronts: they admit like keys, end what they opened, and never reach a sandbox. */
let server: KeyServer
let daemon: TestDaemon
let key: SigningKey
const listen = { listen: '127.0.0.1:0' }

beforeAll(async () => {
  key = await signingKey('k')
  server = await startKeyServer([key.jwk])
  daemon = await startTestDaemon({
    jwt: { jwks_url: server.url, issuer, audience, create_projects: true, clock_tolerance_seconds: 0 },
    fronts: { e2b: listen, daytona: listen, vercel: listen, opensandbox: listen },
  })
})
afterAll(async () => {
  await daemon?.stop()
  await server?.close()
})

async function ask(url: string, headers: Record<string, string>, body?: object) {
  const all = { ...headers, ...(body ? { 'content-type': 'application/json' } : {}) }
  const answer = await fetch(url, {
    method: body ? 'POST' : 'GET',
    headers: all,
    body: body && JSON.stringify(body),
  })
  const text = await answer.text()
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
  let json: any
  try {
    json = JSON.parse(text)
  } catch {}
  return { status: answer.status, text, json }
}

describe('a preview', () => {
  it('admits a token of the session’s project, and does not pass it on', async () => {
    const token = await sign(key)
    const inside = await sessionWithServer(actingWith(token))
    const path = `/v1/sessions/${inside.id}/ports`
    expect((await daemon.call('POST', path, { port: inside.port }, { key: token })).status).toBeLessThan(300)
    const host = `${inside.port}-${inside.id}.localhost`
    const come = (headers: Record<string, string>) => visit(daemon, { host, path: '/echo', headers })
    const bearer = (text: string) => ({ authorization: `Bearer ${text}` })
    expect((await come({})).status).toBe(404)
    expect((await come(bearer(await sign(key, claims({ tenant_id: 'globex' }))))).status).toBe(404)
    expect((await come(bearer(await sign(key, claims({ scopes: 'read' }))))).status).toBe(404)
    const seen = await come(bearer(token))
    expect(seen.status).toBe(200)
    expect(JSON.parse(seen.text).headers.authorization).toBeUndefined()
    expect((await come({ 'x-sandkasten-token': token })).status).toBe(200)

    // A public port: tokens of ours are removed wherever a key would be, also when they have expired.
    await daemon.call('POST', path, { port: inside.port, visibility: 'public' }, { key: token })
    const headersOf = async (headers: Record<string, string>) =>
      JSON.parse((await come(headers)).text).headers
    const expired = await sign(key, claims({ iat: now() - 900, exp: now() - 600 }))
    const foreign = await sign(key, claims({ tenant_id: 'globex' }))
    for (const text of [token, expired, foreign]) {
      expect((await headersOf(bearer(text))).authorization).toBeUndefined()
      expect((await headersOf({ 'x-api-key': text }))['x-api-key']).toBeUndefined()
      expect((await headersOf({ authorization: text })).authorization).toBeUndefined()
    }
    // The application's own tokens pass, and cause no request for keys.
    const reads = server.reads
    const other = await signingKey('other')
    for (const changes of [{ iss: 'https://app.example.com/' }, { aud: 'app' }]) {
      const own = await sign(other, claims(changes))
      expect((await headersOf(bearer(own))).authorization).toBe(`Bearer ${own}`)
    }
    expect(server.reads).toBeLessThanOrEqual(reads + 1)
  })
})

describe('the fronts', () => {
  it('E2B: access tokens and signed URLs work until the token ends', { timeout: 30_000 }, async () => {
    const front = daemon.daemon.fronts.e2b!
    const ends = now() + 6
    const token = await sign(key, claims({ exp: ends, padding: 'x'.repeat(500) }))
    // Some SDKs accept only keys of this form.
    const hexadecimal = `e2b_${Buffer.from(token).toString('hex')}`
    const made = await ask(`${front}/sandboxes`, { 'x-api-key': hexadecimal }, { templateID: 'base' })
    expect(made.status, made.text).toBe(201)
    const { sandboxID: id, envdAccessToken: access } = made.json
    const headers = { 'x-access-token': access, 'e2b-sandbox-id': id, 'e2b-sandbox-port': '49983' }
    const read = async () => (await ask(`${front}/files?path=none&username=user`, headers)).status
    expect(await read()).toBe(404)
    const other = await sign(key, claims({ tenant_id: 'globex' }))
    expect((await ask(`${front}/sandboxes/${id}`, { 'x-api-key': other })).status).toBe(404)
    await expect.poll(read, { timeout: 15_000 }).toBe(401)
    expect(Date.now() / 1000).toBeGreaterThanOrEqual(ends)
  })

  it('Daytona: a signing key works until the token ends', { timeout: 30_000 }, async () => {
    const front = daemon.daemon.fronts.daytona!
    const ends = now() + 6
    const bearer = { authorization: `Bearer ${await sign(key, claims({ exp: ends }))}` }
    const made = await ask(`${front}/api/sandbox`, bearer, {})
    expect(made.status, made.text).toBe(200)
    const { text } = await ask(`${front}/api/sandbox/${made.json.id}/signing-key`, bearer)
    const secret = text.replaceAll('"', '')
    const signature = createHmac('sha256', secret).update('v1:files:GET:none:0').digest('base64url')
    const query = `path=none&expires=0&signature=v1_${signature}`
    const read = async () =>
      (await ask(`${front}/toolbox/${made.json.id}/files/download?${query}`, {})).status
    expect(await read()).toBe(404)
    await expect.poll(read, { timeout: 15_000 }).toBe(401)
  })

  it('OpenSandbox: a header of the endpoint works until the token ends', { timeout: 30_000 }, async () => {
    const front = daemon.daemon.fronts.opensandbox!
    const token = await sign(key, claims({ exp: now() + 6 }))
    const body = { image: { uri: 'host' }, resourceLimits: {}, entrypoint: ['sleep', 'infinity'] }
    const made = await ask(`${front}/v1/sandboxes`, { 'open-sandbox-api-key': token }, body)
    expect(made.status, made.text).toBeLessThan(300)
    const at = await ask(`${front}/v1/sandboxes/${made.json.id}/endpoints/44772`, {
      'open-sandbox-api-key': token,
    })
    expect(at.json.headers['X-EXECD-ACCESS-TOKEN']).not.toContain(token)
    const ping = async () =>
      (await ask(`http://${at.json.endpoint}/files/info?path=none`, at.json.headers)).status
    expect(await ping()).not.toBe(401)
    await expect.poll(ping, { timeout: 15_000 }).toBe(401)
  })

  it('Vercel: accepts the token as a key', async () => {
    const front = daemon.daemon.fronts.vercel!
    const bearer = async (changes: JWTPayload = {}) => ({
      authorization: `Bearer ${await sign(key, claims(changes))}`,
    })
    const made = await ask(`${front}/v2/sandboxes`, await bearer(), { projectId: 'p' })
    expect(made.status, made.text).toBeLessThan(300)
    const list = async (changes: JWTPayload) =>
      (await ask(`${front}/v2/sandboxes?project=p`, await bearer(changes))).json
    expect(JSON.stringify(await list({}))).toContain(made.json.sandbox.name)
    expect(JSON.stringify(await list({ tenant_id: 'globex' }))).not.toContain(made.json.sandbox.name)
  })

  it('do not list tokens as keys, nor let them fill the project’s keys', async () => {
    const admin = await sign(key, claims({ scopes: 'admin' }))
    expect((await daemon.call('GET', '/v1/keys', undefined, { key: admin })).body.keys).toEqual([])
    const { store } = daemon.context
    const project = (await daemon.call('GET', '/v1/whoami', undefined, { key: admin })).body.project_id
    const grant = (at: number) => ({
      id: `g${at}`,
      project_id: project,
      name: 'token',
      scopes: 'exec',
      created_at: at,
      expires_at: 1_000_000,
      revoked_at: null,
      subject: null,
    })
    const ends = await store.keys.usableIds(project, 999_999)
    for (let at = 0; at < 3; at += 1)
      expect(await store.keys.insertGrant(grant(at), 3 + ends.length)).toBe(true)
    expect(await store.keys.insertGrant(grant(3), 3)).toBe(false)
    expect(await store.keys.insertGrant(grant(2), 3)).toBe(true)
    // Ended ones make room.
    expect(await store.keys.insertGrant({ ...grant(4), created_at: 1_000_001 }, 10_000)).toBe(true)
    expect(await store.keys.usableIds(project, 0)).not.toContain('g0')
  })
})

/** The daemon's helpers with a token instead of the key. */
function actingWith(token: string): TestDaemon {
  return {
    ...daemon,
    call: (method, path, body, options) => daemon.call(method, path, body, { ...options, key: token }),
    fetch: (path, init) => daemon.fetch(path, { ...init, key: token }),
    session: async () => (await daemon.call('POST', '/v1/sessions', {}, { key: token })).body.id,
  }
}
