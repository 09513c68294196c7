import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventsOf, startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'

const missing = await isolationMissing()

/**
 * Runs in the sandbox: responds with the bytes of the request's head. `/raw` responds with the base64-decoded query.
 */
const echo = `
require('node:net').createServer((socket) => {
  let text = ''
  socket.on('error', () => {})
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1')
    const end = text.indexOf('\\r\\n\\r\\n')
    if (end === -1) return
    const raw = /^GET \\/raw\\?(\\S+)/.exec(text)
    if (raw) return socket.end(Buffer.from(raw[1], 'base64url'))
    const head = Buffer.from(text.slice(0, end), 'latin1').toString('base64')
    socket.end('HTTP/1.1 200 OK\\r\\ncontent-length: ' + head.length + '\\r\\n\\r\\n' + head)
  })
}).listen(3000, '127.0.0.1', () => console.log('ready'))
`

interface Way {
  readonly listener: string
  readonly host: string
  readonly prefix: string
  readonly headers: readonly string[]
}

const ways = [
  'preview by name',
  'preview by path',
  'preview by link',
  'E2B by host',
  'E2B by headers',
  'Vercel',
  'Daytona',
  'OpenSandbox',
] as const

describe.skipIf(missing)(`requests to ports${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let daemon: TestDaemon
  const found = new Map<string, Way>()
  const secrets: Record<string, string> = {}

  beforeAll(async () => {
    const listen = { listen: '127.0.0.1:0' }
    daemon = await startTestDaemon({
      isolator: 'oci',
      fronts: { e2b: listen, vercel: listen, daytona: listen, opensandbox: listen },
    })
    const { fronts, previewUrl } = daemon.daemon
    const bearer = { authorization: `Bearer ${daemon.key}` }
    const ask = async (
      url: string,
      body?: object,
      headers: Record<string, string> = bearer,
      // biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
    ): Promise<any> => {
      const json = body ? { method: 'POST', body: JSON.stringify(body) } : {}
      const answer = await fetch(url, {
        ...json,
        headers: { ...headers, ...(body ? { 'content-type': 'application/json' } : {}) },
      })
      const text = await answer.text()
      if (!answer.ok) throw new Error(`${url}: ${answer.status} ${text}`)
      return JSON.parse(text)
    }
    const serve = async (id: string) => {
      const run = { cmd: 'node', args: ['-e', echo], exec_id: `echo-${id}`, detach: true }
      await ask(`${daemon.daemon.url}/v1/sessions/${id}/run`, run)
      const output = await daemon.fetch(`/v1/sessions/${id}/execs/${run.exec_id}/output?after=0`)
      for await (const { event } of eventsOf(output)) if (event === 'stdout') break
    }
    const wayOf = (address: string): Way => {
      const url = new URL(address.includes('://') ? address : `http://${address}`)
      return {
        listener: previewUrl!,
        host: url.host,
        prefix: url.pathname.replace(/\/$/, ''),
        headers: [],
      }
    }

    const own = await daemon.session()
    await serve(own)
    await daemon.call('POST', `/v1/sessions/${own}/ports`, { port: 3000, visibility: 'public' })
    const { body: link } = await daemon.call('POST', `/v1/sessions/${own}/ports/3000/links`, {})
    found.set('preview by name', {
      listener: previewUrl!,
      host: `3000-${own}.localhost`,
      prefix: '',
      headers: [],
    })
    found.set('preview by path', wayOf(`${previewUrl}/p/3000-${own}`))
    found.set('preview by link', wayOf(link.path_url))

    const e2b = await ask(`${fronts.e2b}/sandboxes`, { templateID: 'base' }, { 'x-api-key': daemon.key })
    const id: string = e2b.sandboxID
    await serve(id)
    const { host } = new URL(fronts.e2b!)
    found.set('E2B by host', {
      listener: fronts.e2b!,
      host: `3000-${id}.${e2b.domain ?? 'localhost'}`,
      prefix: '',
      headers: [],
    })
    found.set('E2B by headers', {
      listener: fronts.e2b!,
      host,
      prefix: '',
      headers: [`E2b-Sandbox-Id: ${id}`, 'E2b-Sandbox-Port: 3000'],
    })

    const vercel = await ask(`${fronts.vercel}/v3/sandboxes`, { ports: [3000] })
    await serve(vercel.session.id.split('_')[1])
    found.set('Vercel', wayOf(vercel.routes[0].url))

    const daytona = await ask(`${fronts.daytona}/api/sandbox`, { public: true })
    await serve(daytona.id)
    const preview = await ask(`${fronts.daytona}/api/sandbox/${daytona.id}/ports/3000/preview-url`)
    found.set('Daytona', { ...wayOf(preview.url), headers: [`X-Daytona-Preview-Token: ${preview.token}`] })

    const opensandbox = await ask(`${fronts.opensandbox}/v1/sandboxes`, {
      image: { uri: 'host' },
      timeout: 600,
    })
    await serve(opensandbox.id)
    const { endpoint } = await ask(`${fronts.opensandbox}/v1/sandboxes/${opensandbox.id}/endpoints/3000`)
    found.set('OpenSandbox', wayOf(endpoint))

    const other = await daemon.session()
    const { body: opened } = await daemon.call('POST', `/v1/sessions/${other}/ports`, {
      port: 3000,
      visibility: 'token',
    })
    const { body: made } = await daemon.call('POST', '/v1/keys', { name: 'k', scopes: ['read'] })
    await daemon.call('DELETE', `/v1/keys/${made.id}`)
    Object.assign(secrets, {
      // Chosen by the operator, so its form is arbitrary.
      configured: daemon.key,
      revoked: made.key,
      link: link.token,
      daytona: preview.token,
      port: opened.token,
      access: e2b.envdAccessToken,
    })
    for (const [name, secret] of Object.entries(secrets)) expect(secret, name).toMatch(/^\S{20,}$/)
  })
  afterAll(() => daemon?.stop())

  /** Sends these bytes and returns everything until the connection ends. */
  const exchange = async (
    { listener, host, prefix, headers }: Way,
    path: string,
    lines: readonly string[],
  ) => {
    const socket = connect(Number(new URL(listener).port), '127.0.0.1')
    const all = [`Host: ${host}`, 'Connection: close', ...headers, ...lines]
    socket.write(`GET ${prefix}${path} HTTP/1.1\r\n${all.join('\r\n')}\r\n\r\n`, 'latin1')
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
    })
    await once(socket, 'close')
    return text
  }
  /** The head of the request as the server in the sandbox got it. */
  const seen = async (way: Way, path: string, lines: readonly string[]) => {
    const text = await exchange(way, path, lines)
    expect(text, `${path} ${lines}`).toMatch(/^HTTP\/1\.1 200 /)
    return Buffer.from(text.slice(text.indexOf('\r\n\r\n') + 4), 'base64').toString('latin1')
  }

  const basic = (text: string) => Buffer.from(text).toString('base64')
  const hex = (text: string) => Buffer.from(text).toString('hex')
  /** How a client may send a secret of ours, by mistake or because a vendor's SDK does. */
  const attempts: Record<string, (secret: string) => { path?: string; lines?: string[] }> = {
    'Authorization: Bearer': (s) => ({ lines: [`Authorization: Bearer ${s}`] }),
    'Authorization in another case': (s) => ({ lines: [`aUTHORIZATION: bEARER   ${s}`] }),
    'a second Authorization': (s) => ({ lines: ['Authorization: Basic YTpi', `Authorization: Bearer ${s}`] }),
    'Authorization: Token': (s) => ({ lines: [`Authorization: Token ${s}`] }),
    'Authorization: Basic, password': (s) => ({ lines: [`Authorization: Basic ${basic(`user:${s}`)}`] }),
    'Authorization: Basic, user': (s) => ({ lines: [`Authorization: Basic ${basic(`${s}:`)}`] }),
    'X-API-Key': (s) => ({ lines: [`X-API-Key: ${s}`] }),
    'X-API-Key with underscores': (s) => ({ lines: [`X_API_KEY: ${s}`] }),
    'X-API-Key, E2B form': (s) => ({ lines: [`X-API-KEY: e2b_${hex(s)}`] }),
    'X-Access-Token': (s) => ({ lines: [`X-Access-Token: ${s}`] }),
    'Open-Sandbox-Api-Key': (s) => ({ lines: [`OPEN-SANDBOX-API-KEY: ${s}`] }),
    'X-Execd-Access-Token': (s) => ({ lines: [`X-EXECD-ACCESS-TOKEN: ${s}`] }),
    'E2b-Traffic-Access-Token': (s) => ({ lines: [`e2b-traffic-access-token: ${s}`] }),
    'X-Sandkasten-Token': (s) => ({ lines: [`X-Sandkasten-Token: ${s}`] }),
    'X-Daytona-Preview-Token': (s) => ({ lines: [`x-daytona-preview-token: ${s}`] }),
    'Sec-WebSocket-Protocol': (s) => ({ lines: [`Sec-WebSocket-Protocol: chat, sandkasten.key.${s}`] }),
    'our cookie': (s) => ({ lines: [`Cookie: a=1; sandkasten-preview=${s}; b=2`] }),
    'our secure cookie': (s) => ({ lines: [`Cookie: __Host-sandkasten-preview=${s}`] }),
    'our cookie, quoted': (s) => ({ lines: [`Cookie: a=1; sandkasten-preview="${s}"`] }),
    'our cookie after a comma': (s) => ({ lines: [`Cookie: a=1, sandkasten-preview=${s}`] }),
    'our cookie in another case': (s) => ({ lines: [`Cookie: SandKasten-Preview=${s}`] }),
    'our cookie with spaces': (s) => ({ lines: [`Cookie: sandkasten-preview  =  ${s}`] }),
    'our cookie without a name': (s) => ({ lines: [`Cookie: =sandkasten-preview=${s}`] }),
    'our cookie twice': (s) => ({ lines: [`Cookie: sandkasten-preview=x; sandkasten-preview=${s}`] }),
    'two Cookie headers': (s) => ({ lines: ['Cookie: a=1', `Cookie: sandkasten-preview=${s}`] }),
    'a parameter': (s) => ({ path: `/?a=1&sandkasten_token=${s}&b=2` }),
    'a parameter in another case': (s) => ({ path: `/?Sandkasten_Token=${s}` }),
    'a parameter, encoded': (s) => ({ path: `/?sandkasten%5Ftoken=${s}` }),
    'a parameter twice': (s) => ({ path: `/?sandkasten_token=x&sandkasten_token=${s}` }),
    'Daytona’s parameter': (s) => ({ path: `/?DAYTONA_SANDBOX_AUTH_KEY=${s}` }),
  }
  /** Places where a key chosen by the operator cannot be recognised. */
  const byFormAlone: typeof attempts = {
    Referer: (s) => ({ lines: [`Referer: http://x.localhost/?sandkasten_token=${s}`] }),
    'X-Original-Url': (s) => ({ lines: [`X-Original-Url: /p/3000-x/~${s}/`] }),
    'a header of any name': (s) => ({ lines: [`X-Some-Key: ${s}`] }),
    'a cookie of any name': (s) => ({ lines: [`Cookie: token=${s}`] }),
    'a parameter of any name': (s) => ({ path: `/?key=${s}` }),
    'a parameter of any name, encoded': (s) => ({ path: `/?key=${s.replace(/[.-]/g, (c) => `%${hex(c)}`)}` }),
  }

  const expectHidden = (head: string, secret: string, what: string) => {
    const words = head.split(/[\s:;,=&?]+/)
    const texts = [
      head,
      decodeURIComponent(head.replace(/%(?![0-9a-f]{2})/gi, '%25')),
      ...words.map((word) => Buffer.from(word, 'base64').toString('latin1')),
      ...words.map((word) => Buffer.from(word.replace(/^e2b_/, ''), 'hex').toString('latin1')),
    ]
    for (const text of texts) expect(text, what).not.toContain(secret)
  }

  it.each(ways)('%s: no credential of ours reaches the sandbox', async (name) => {
    const way = found.get(name)!
    for (const [which, secret] of Object.entries(secrets)) {
      const tried = which === 'configured' || which === 'access' ? attempts : { ...attempts, ...byFormAlone }
      for (const [what, attempt] of Object.entries(tried)) {
        const { path = '/', lines = [] } = attempt(secret)
        expectHidden(await seen(way, path, lines), secret, `${which}, ${what}`)
      }
    }
    // The credentials that selected the sandbox are hidden, too.
    const plain = await seen(way, '/', [])
    for (const [which, secret] of Object.entries(secrets)) expectHidden(plain, secret, which)
    expect(plain.toLowerCase()).not.toMatch(/e2b-|daytona|sandkasten/)
  })

  it.each(ways)('%s: no credential of ours reaches a WebSocket server', async (name) => {
    const way = found.get(name)!
    const upgrade = [
      'Upgrade: websocket',
      'Sec-WebSocket-Version: 13',
      'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
    ]
    for (const attempt of Object.values(attempts)) {
      const { path = '/', lines = [] } = attempt(secrets.configured!)
      const all = { ...way, headers: [...way.headers, 'Connection: Upgrade', ...upgrade] }
      expectHidden(await seen(all, path, lines), secrets.configured!, lines.join())
    }
  })

  it.each(ways)('%s: the application’s own credentials reach it', async (name) => {
    const way = found.get(name)!
    const named = name.endsWith('name') || name.startsWith('E2B')
    for (const line of [
      'Authorization: Basic YXBwOnNlY3JldA==',
      'Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl',
      'Authorization: Digest username="app", realm="r", nonce="n"',
      'X-API-Key: sk-of-the-application',
      'X-Access-Token: eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl',
      'Sec-WebSocket-Protocol: chat, v2',
    ])
      expect((await seen(way, '/', [line])).split('\r\n'), line).toContain(line)
    const cookie = 'a=1; session="x y"; empty=; b=2'
    const withCookie = await seen(way, '/', [`Cookie: ${cookie}; sandkasten-preview=x`])
    if (named) expect(withCookie).toContain(`\r\nCookie: ${cookie}`)
    else expect(withCookie).not.toMatch(/cookie:/i)
    expect(await seen(way, '/a%2Fb?token=1&x=%20&y&sandkasten_token=1&z=', [])).toMatch(
      /^GET \/a%2Fb\?token=1&x=%20&y&z= HTTP\/1\.1\r\n/,
    )
  })

  it.each(ways)('%s: a response can neither set our cookie nor confuse a proxy', async (name) => {
    const way = found.get(name)!
    const answered = async (bytes: string) => {
      const text = await exchange(way, `/raw?${Buffer.from(bytes, 'latin1').toString('base64url')}`, [])
      return { head: text.slice(0, text.indexOf('\r\n\r\n')), body: text.slice(text.indexOf('\r\n\r\n') + 4) }
    }
    const hidden = 'HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhidden'
    for (const status of ['204 No Content', '304 Not Modified']) {
      const { head, body } = await answered(
        `HTTP/1.1 ${status}\r\ncontent-length: ${hidden.length}\r\nx-app: 1\r\n\r\n${hidden}`,
      )
      expect(head, status).toMatch(new RegExp(`^HTTP/1\\.1 ${status.slice(0, 3)} `))
      expect(head, status).toContain('x-app: 1')
      expect(head, status).not.toMatch(/content-length: [1-9]/i)
      expect(body, status).not.toContain('hidden')
    }
    const early = await answered(
      `HTTP/1.1 103 Early\r\ncontent-length: 3\r\nset-cookie: sandkasten-preview=x\r\n\r\n${hidden}`,
    )
    expect(early.head).toMatch(/^HTTP\/1\.1 200 /)
    expect(early.head).not.toContain('sandkasten-preview')
    const cookies = [
      'sandkasten-preview=x',
      '=sandkasten-preview=x',
      'sandkasten-preview',
      ' =  sandkasten-preview=x; Path=/deep',
      'SANDKASTEN-PREVIEW=x',
      '"sandkasten-preview"=x',
      '\tsandkasten-preview\t=x',
      '__Host-sandkasten-preview=x; Secure; Path=/',
      '=__Host-sandkasten-preview=x',
    ]
    const lines = cookies.map((cookie) => `Set-Cookie: ${cookie}\r\n`).join('')
    const { head } = await answered(
      `HTTP/1.1 200 OK\r\n${lines}X-Accel-Redirect: /etc/passwd\r\nX-Sendfile: /etc/passwd\r\ncontent-length: 0\r\n\r\n`,
    )
    expect(head).toMatch(/^HTTP\/1\.1 200 /)
    expect(head.toLowerCase()).not.toContain('sandkasten-preview')
    expect(head).not.toContain('/etc/passwd')
  })
})
