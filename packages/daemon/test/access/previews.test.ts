import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'
import { type Inside, raw, sessionWithServer, startServer, visit } from './preview-helper.ts'

let daemon: TestDaemon
let inside: Inside
const named = ({ id, port }: Inside) => `${port}-${id}.localhost`
const auth = () => ({ authorization: `Bearer ${daemon.key}` })
const open = async (body: object = {}, at = inside) =>
  (await daemon.call('POST', `/v1/sessions/${at.id}/ports`, { port: at.port, ...body })).body
const link = async (body: object = {}, at = inside) =>
  (await daemon.call('POST', `/v1/sessions/${at.id}/ports/${at.port}/links`, body)).body

beforeAll(async () => {
  daemon = await startTestDaemon()
  inside = await sessionWithServer(daemon)
})
afterAll(() => daemon?.stop())

describe('a port', () => {
  it('is closed by default, private when opened, and can be closed again', async () => {
    const host = named(inside)
    expect((await visit(daemon, { host, headers: auth() })).status).toBe(404)
    const opened = await open()
    const previews = new URL(daemon.daemon.previewUrl!).port
    expect(opened).toMatchObject({
      port: inside.port,
      visibility: 'private',
      wake_on_visit: false,
      url: `http://${host}:${previews}`,
      path_url: `${daemon.daemon.previewUrl}/p/${inside.port}-${inside.id}`,
    })
    expect(opened.token).toBeUndefined()
    expect((await visit(daemon, { host })).status).toBe(404)
    expect((await visit(daemon, { host, headers: { 'x-sandkasten-token': 'wrong' } })).status).toBe(404)
    const seen = await visit(daemon, { host, path: '/echo?a=1', headers: auth() })
    expect(JSON.parse(seen.text)).toMatchObject({ method: 'GET', url: '/echo?a=1' })
    const list = await daemon.call('GET', `/v1/sessions/${inside.id}/ports`)
    expect(list.body.ports).toMatchObject([{ port: inside.port, visibility: 'private', listening: true }])
    expect((await daemon.call('DELETE', `/v1/sessions/${inside.id}/ports/${inside.port}`)).body).toEqual({
      closed: true,
    })
    expect((await visit(daemon, { host, headers: auth() })).status).toBe(404)
    await daemon.context.events.flush()
    const { body } = await daemon.call('GET', `/v1/events?after=0&limit=100&session_id=${inside.id}`)
    expect(body.events.map(({ type }: { type: string }) => type)).toEqual(
      expect.arrayContaining(['port.opened', 'port.closed']),
    )
  })

  it('opens with its token, which is shown once, and not with a replaced token', async () => {
    const host = named(inside)
    const { token } = await open({ visibility: 'token' })
    expect(token).toMatch(/^pt-[a-z2-7]{32}$/)
    expect((await open()).token).toBeUndefined()
    const come = (token: string) => visit(daemon, { host, headers: { 'x-sandkasten-token': token } })
    expect((await come(token)).status).toBe(200)
    expect((await visit(daemon, { host, path: `/echo?x=1&sandkasten_token=${token}&y=2` })).text).toContain(
      '"url":"/echo?x=1&y=2"',
    )
    const { token: next } = await open({ rotate: true })
    expect((await come(token)).status).toBe(404)
    expect((await come(next)).status).toBe(200)
    await open({ visibility: 'private' })
    expect((await come(next)).status).toBe(404)
  })

  it('is public only on request', async () => {
    await open({ visibility: 'public' })
    expect((await visit(daemon, { host: named(inside) })).status).toBe(200)
    await open({ visibility: 'private' })
    expect((await visit(daemon, { host: named(inside) })).status).toBe(404)
  })

  it('has links that expire, and end with the port and the session', async () => {
    const host = named(inside)
    await open({ visibility: 'private' })
    const { token, url, path_url, expires_at } = await link({ path: '/echo?a=1#top' })
    expect(url).toMatch(new RegExp(`^http://${host}:\\d+/echo\\?a=1&sandkasten_token=l1\\.[^#]*#top$`))
    expect(Date.parse(expires_at)).toBeGreaterThan(Date.now() + 3_500_000)
    const come = (token: string) => visit(daemon, { host, headers: { 'x-sandkasten-token': token } })
    expect((await come(token)).status).toBe(200)
    expect((await visit(daemon, { path: new URL(path_url).pathname })).status).toBe(200)
    // Another expiry, another signature, another port.
    const [, expiry, signature] = token.split('.')
    expect((await come(`l1.${expiry}0.${signature}`)).status).toBe(404)
    const other = { id: inside.id, port: inside.port === 1 ? 2 : 1 }
    await open({}, other)
    expect(
      (await visit(daemon, { host: named(other), headers: { 'x-sandkasten-token': token } })).status,
    ).toBe(404)
    const short = await link({ expires_in_seconds: 0.001 })
    await expect.poll(async () => (await come(short.token)).status, { timeout: 5_000 }).toBe(404)
    await open({ rotate: true })
    expect((await come(token)).status).toBe(404)
  })

  it('gives a browser a cookie for the link, and accepts it only from its own pages', async () => {
    const host = named(inside)
    await open({ visibility: 'private' })
    const { url } = await link({ path: '/echo?a=1' })
    const { pathname, search, origin, host: named_ } = new URL(url)
    const first = await visit(daemon, {
      host: named_,
      path: pathname + search,
      headers: { accept: 'text/html', 'sec-fetch-mode': 'navigate' },
    })
    expect(first).toMatchObject({ status: 302, headers: { location: `${origin}/echo?a=1` } })
    const [set] = first.headers['set-cookie']!
    expect(set).toMatch(/^sandkasten-preview=l1\.\S+; Path=\/; HttpOnly; SameSite=Lax; Max-Age=\d+$/)
    const cookie = `theirs=1; ${set!.split(';')[0]}`
    const own = await visit(daemon, { host: named_, headers: { cookie, 'sec-fetch-site': 'same-origin' } })
    expect(JSON.parse(own.text).headers.cookie).toBe('theirs=1')
    const foreign: Array<Record<string, string>> = [
      { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'cors' },
      { origin: 'http://3000-aaaaaaaaaaaaaaaa.localhost' },
    ]
    for (const headers of foreign)
      expect((await visit(daemon, { host: named_, headers: { cookie, ...headers } })).status).toBe(404)
    // Not in the path form, where all previews share a host.
    expect(
      (await visit(daemon, { path: `/p/${inside.port}-${inside.id}/`, headers: { cookie } })).status,
    ).toBe(404)
    // A path that begins with two slashes does not lead away.
    const [, query] = search.split('a=1&')
    const away = await visit(daemon, {
      host,
      path: `//evil.example/?${query}`,
      headers: { accept: 'text/html' },
    })
    expect(away.headers.location).toBe(`${origin}//evil.example/`)
  })
})

describe('previews forward', () => {
  beforeAll(() => open({ visibility: 'private' }))

  it('bodies of any size, both ways, in bounded memory', async () => {
    const bytes = 48 * 1_048_576
    const chunk = Buffer.alloc(1_048_576, 'b')
    const hash = createHash('sha256')
    const { port } = new URL(daemon.daemon.previewUrl!)
    const outgoing = request({
      port,
      host: '127.0.0.1',
      path: '/sum',
      method: 'PUT',
      headers: { host: named(inside), ...auth(), 'transfer-encoding': 'chunked' },
    })
    for (let sent = 0; sent < bytes; sent += chunk.length) {
      hash.update(chunk)
      if (!outgoing.write(chunk)) await once(outgoing, 'drain')
    }
    outgoing.end()
    const [answer] = await once(outgoing, 'response')
    let text = ''
    for await (const part of answer) text += part
    expect(JSON.parse(text)).toMatchObject({ method: 'PUT', bytes, sha256: hash.digest('hex') })
    const big = await fetch(`${daemon.daemon.previewUrl}/p/${inside.port}-${inside.id}/big?bytes=${bytes}`, {
      headers: auth(),
    })
    let got = 0
    for await (const part of big.body!) got += part.length
    expect(got).toBe(bytes)
  })

  it('events without delay', async () => {
    const gone = new AbortController()
    const response = await fetch(`${daemon.daemon.previewUrl}/p/${inside.port}-${inside.id}/events`, {
      headers: auth(),
      signal: gone.signal,
    })
    const { value } = await response.body!.getReader().read()
    expect(Buffer.from(value!).toString()).toBe('data: first\n\n')
    gone.abort()
  })

  it('WebSockets, in both forms, until the port is closed', async () => {
    const { port } = new URL(daemon.daemon.previewUrl!)
    const at = { id: inside.id, port: await startServer(daemon, inside.id) }
    await open({}, at)
    const { token } = await link({}, at)
    for (const [path, headers] of [
      ['/chat?room=1', { host: named(at), ...auth() }],
      [`/p/${at.port}-${at.id}/~${token}/chat?room=1`, {}],
    ] as const) {
      const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, { headers })
      const [first] = await once(socket, 'message')
      expect(first.toString()).toBe('/chat?room=1')
      socket.send(Buffer.alloc(300_000, 7))
      const [echo] = await once(socket, 'message')
      expect(echo.equals(Buffer.alloc(300_000, 7))).toBe(true)
      const closed = once(socket, 'close')
      if (path.startsWith('/chat')) socket.close()
      else await daemon.call('DELETE', `/v1/sessions/${at.id}/ports/${at.port}`)
      await closed
    }
    const refused = new WebSocket(`ws://127.0.0.1:${port}/`, { headers: { host: named(at) } })
    const [error] = await once(refused, 'error')
    expect(error.message).toContain('404')
  })

  it('heads without our credentials and our headers', async () => {
    const { text } = await visit(daemon, {
      host: named(inside),
      headers: {
        ...auth(),
        'x-sandkasten-token': 'pt-secret',
        connection: 'close, x-hop',
        'x-hop': '1',
        'x-forwarded-for': '6.6.6.6',
        'x-forwarded-host': 'evil.example',
        'proxy-authorization': 'secret',
        'x-mine': 'kept',
      },
    })
    const { headers } = JSON.parse(text)
    expect(headers).toEqual({
      host: `localhost:${inside.port}`,
      'x-mine': 'kept',
      'x-forwarded-host': named(inside),
      'x-forwarded-proto': 'http',
      'x-forwarded-for': '127.0.0.1',
      connection: 'close',
    })
    const { token } = await link()
    const kept = await visit(daemon, {
      host: named(inside),
      headers: { authorization: 'Basic app', 'x-sandkasten-token': token },
    })
    expect(JSON.parse(kept.text).headers.authorization).toBe('Basic app')
  })

  it('responses that cannot affect other origins', async () => {
    const byName = await visit(daemon, { host: named(inside), path: '/cookies', headers: auth() })
    expect(byName.headers['set-cookie']).toEqual(['a=1; Path=/', 'b=2; HttpOnly'])
    expect(byName.headers).toMatchObject({ 'x-app': 'yes', 'origin-agent-cluster': '?1' })
    const prefix = `/p/${inside.port}-${inside.id}`
    const byPath = await visit(daemon, { path: `${prefix}/cookies`, headers: auth() })
    expect(byPath.headers['set-cookie']).toBeUndefined()
    expect(byPath.headers['content-security-policy']).toMatch(/^sandbox (?!.*allow-same-origin)/)
    for (const { headers } of [byName, byPath]) {
      expect(headers['strict-transport-security']).toBeUndefined()
      expect(headers['clear-site-data']).toBeUndefined()
    }
    const there = (path: string, host?: string) => visit(daemon, { path, host, headers: auth() })
    expect((await there('/redirect', named(inside))).headers.location).toBe('/there?x=1')
    expect((await there(`${prefix}/redirect`)).headers.location).toBe(`${prefix}/there?x=1`)
    expect((await there(prefix)).headers.location).toBe(`${prefix}/`)
  })

  it('a response that arrives before the body was sent', async () => {
    const head = `POST /early HTTP/1.1\r\nhost: ${named(inside)}\r\nauthorization: Bearer ${daemon.key}\r\ncontent-length: 1000000\r\n\r\nabc`
    const text = await raw(daemon, head)
    expect(text).toMatch(/^HTTP\/1\.1 413 /)
    expect(text).toContain('too much')
  })
})

describe('refused visitors', () => {
  it('a key of another project gets the same answer as no key', async () => {
    await open({ visibility: 'private' })
    const project = (await daemon.call('POST', '/v1/projects', { name: 'other' })).body.id
    const make = async (scopes: string[], project_id?: string) =>
      (await daemon.call('POST', '/v1/keys', { name: 'k', scopes, project_id })).body.key
    const stranger = await make(['admin'], project)
    const none = { id: 'aaaaaaaaaaaaaaaa', port: inside.port }
    const ask = (at: Inside, headers: Record<string, string>) => visit(daemon, { host: named(at), headers })
    const nothing = await ask(none, auth())
    expect(nothing.status).toBe(404)
    for (const headers of [{ authorization: `Bearer ${stranger}` }, { 'x-sandkasten-token': stranger }, {}])
      expect(
        await ask(inside, headers as Record<string, string>).then(({ status, text }) => ({ status, text })),
      ).toEqual({ status: 404, text: nothing.text })
    const reader = await make(['read'])
    expect((await ask(inside, { authorization: `Bearer ${reader}` })).status).toBe(404)
    const worker = await make(['exec'])
    expect((await ask(inside, { 'x-sandkasten-token': worker })).status).toBe(200)
  })

  it('the API is not reachable through previews', async () => {
    for (const host of [undefined, named(inside)])
      expect((await visit(daemon, { path: '/v1/whoami', host })).status).toBe(404)
    const at = { id: inside.id, port: Number(new URL(daemon.daemon.url).port) }
    await open({ visibility: 'public' }, at)
    expect(await visit(daemon, { host: named(at), path: '/healthz' })).toMatchObject({
      status: 403,
      text: expect.stringContaining('port of the daemon itself'),
    })
    // The listener of the API shows no previews.
    const api = await fetch(`${daemon.daemon.url}/p/${inside.port}-${inside.id}/`, { headers: auth() })
    expect(api.status).toBe(404)
    // And below the domain there is no path form: every name shows one sandbox.
    await open({ visibility: 'public' })
    const within = await visit(daemon, { host: named(inside), path: `/p/${at.port}-${at.id}/echo` })
    expect(JSON.parse(within.text).url).toBe(`/p/${at.port}-${at.id}/echo`)
    await open({ visibility: 'private' })
  })

  it.each([
    'localhost',
    '3000.localhost',
    '03000-aaaaaaaaaaaaaaaa.localhost',
    '70000-aaaaaaaaaaaaaaaa.localhost',
    'x.3000-aaaaaaaaaaaaaaaa.localhost',
    '3000-aaaaaaaaaaaaaaaa.localhost.evil.example',
    '3000-aaaaaaaaaaaaaaaa.localhost@evil.example',
    '3000-AAAAAAAAAAAAAAAA/../.localhost',
    '3000-aaaaaaaaaaaaaaaa.localhost:99999999',
    '',
  ])('a host such as “%s”', async (host) => {
    const text = await raw(daemon, `GET / HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`)
    expect(text).toMatch(/^HTTP\/1\.1 40[04] /)
  })

  it('ambiguous requests', async () => {
    await open({ visibility: 'public' })
    const host = `host: ${named(inside)}\r\n`
    const hidden = 'GET /hidden HTTP/1.1\r\nhost: x\r\n\r\n'
    const odd = [
      `POST / HTTP/1.1\r\n${host}content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`,
      `POST / HTTP/1.1\r\n${host}content-length: 0\r\ncontent-length: ${hidden.length}\r\n\r\n${hidden}`,
      `POST / HTTP/1.1\r\n${host}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n${hidden}`,
      `POST / HTTP/1.1\r\n${host}transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n${hidden}`,
      `POST / HTTP/1.1\r\n${host}transfer-encoding : chunked\r\n\r\n0\r\n\r\n${hidden}`,
      `POST / HTTP/1.1\r\n${host}x: 1\n content-length: 5\r\n\r\n${hidden}`,
      `GET / HTTP/1.1\r\n${host}host: evil.example\r\n\r\n${hidden}`,
      `GET http://evil.example/ HTTP/1.1\r\n${host}\r\n`,
      `TRACE / HTTP/1.1\r\n${host}\r\n`,
      `CONNECT ${named(inside)}:80 HTTP/1.1\r\n${host}\r\n`,
      `GET / HTTP/1.1\r\n${host}connection: upgrade\r\nupgrade: h2c\r\n\r\n${hidden}`,
      `POST / HTTP/1.1\r\n${host}connection: upgrade\r\nupgrade: websocket\r\ncontent-length: ${hidden.length}\r\n\r\n${hidden}`,
    ]
    for (const bytes of odd) {
      // The second request ends the connection if the first was accepted.
      const text = await raw(daemon, `${bytes}GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`)
      expect(text, bytes).not.toMatch(/HTTP\/1\.1 (2|101)/)
      expect(text, bytes).not.toContain('/hidden')
    }
    // A GET with a body is framed for the sandbox as it was for us.
    const body = await visit(daemon, {
      host: named(inside),
      headers: { 'transfer-encoding': 'chunked' },
      body: hidden,
    })
    expect(JSON.parse(body.text)).toMatchObject({ url: '/', bytes: hidden.length })
    await open({ visibility: 'private' })
  })
})

describe('a session that does not run', () => {
  it('is woken by a visit only if its port allows it', async () => {
    const at = await sessionWithServer(daemon, { wake_on_use: true })
    await open({ visibility: 'public' }, at)
    await daemon.call('POST', `/v1/sessions/${at.id}/stop`, {})
    const status = async () => (await daemon.call('GET', `/v1/sessions/${at.id}`)).body.status
    expect(await visit(daemon, { host: named(at) })).toMatchObject({
      status: 409,
      text: expect.stringContaining('not_running'),
    })
    expect(await status()).toBe('stopped')
    await open({ wake_on_visit: true }, at)
    // The session is running again, but its server is not.
    expect((await visit(daemon, { host: named(at) })).status).toBe(502)
    expect(await status()).toBe('running')
    await startServer(daemon, at.id, at.port)
    expect((await visit(daemon, { host: named(at) })).status).toBe(200)
    await daemon.call('DELETE', `/v1/sessions/${at.id}`)
    expect((await visit(daemon, { host: named(at), headers: auth() })).status).toBe(404)
  })

  it('is kept alive by authenticated visitors, not by anonymous ones', async () => {
    await open({ visibility: 'public' })
    const { live } = daemon.context
    await daemon.daemon.sessions.leases.write()
    const before = live.touched(inside.id)?.at
    await visit(daemon, { host: named(inside) })
    expect(live.touched(inside.id)?.at).toBe(before)
    await new Promise((resolve) => setTimeout(resolve, 2))
    await visit(daemon, { host: named(inside), headers: auth() })
    expect(live.touched(inside.id)?.at).not.toBe(before)
  })
})

it('open ports, tokens and links survive a restart', async () => {
  await open({ visibility: 'private', rotate: true })
  const { token } = await link()
  await daemon.restart()
  const come = () => visit(daemon, { host: named(inside), headers: { 'x-sandkasten-token': token } })
  expect((await come()).status).toBe(200)
})
