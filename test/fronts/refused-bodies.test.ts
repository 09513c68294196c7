import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { descriptors } from '../../packages/daemon/src/testing/usage.ts'

/** A refused request whose body never ends gets its response, and its connection is closed. */
let daemon: TestDaemon
let reader: string
const sockets: Socket[] = []
beforeAll(async () => {
  const listen = { listen: '127.0.0.1:0' }
  daemon = await startTestDaemon(
    { max_body_mb: 1, fronts: { e2b: listen, vercel: listen, daytona: listen, opensandbox: listen } },
    { patience: { headMs: 1_000, bodyMs: 2_000 } },
  )
  reader = (await daemon.call('POST', '/v1/keys', { name: 'r', scopes: ['read'] })).body.key
})
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy()
})
afterAll(() => daemon?.stop())

interface Case {
  readonly listener: 'api' | 'preview' | 'e2b' | 'vercel' | 'daytona' | 'opensandbox'
  readonly line: string
  readonly status: number
  /** The key to send: one with enough scope, a read-only key, or none. */
  readonly key?: 'admin' | 'reader'
  readonly headers?: string
}

const cases: Case[] = [
  { listener: 'api', line: 'POST /v1/sessions', status: 401 },
  { listener: 'api', line: 'POST /v1/sessions', status: 403, key: 'reader' },
  { listener: 'api', line: 'POST /v1/nothing', status: 404, key: 'admin' },
  { listener: 'api', line: 'POST /v1/sessions', status: 504, key: 'admin' },
  { listener: 'api', line: 'PUT /v1/sessions/aaaaaaaaaaaaaaaa/files?path=x', status: 404, key: 'admin' },
  { listener: 'preview', line: 'POST /p/3000-aaaaaaaaaaaaaaaa/', status: 404 },
  { listener: 'e2b', line: 'POST /sandboxes', status: 401 },
  { listener: 'e2b', line: 'POST /sandboxes', status: 403, key: 'reader' },
  { listener: 'e2b', line: 'POST /nothing', status: 404, key: 'admin' },
  { listener: 'e2b', line: 'POST /sandboxes', status: 504, key: 'admin' },
  {
    listener: 'e2b',
    line: 'POST /',
    status: 502,
    headers: 'e2b-sandbox-id: aaaaaaaaaaaaaaaa\r\ne2b-sandbox-port: 3000\r\n',
  },
  { listener: 'vercel', line: 'POST /v3/sandboxes', status: 401 },
  { listener: 'vercel', line: 'POST /v3/sandboxes', status: 403, key: 'reader' },
  { listener: 'vercel', line: 'POST /nothing', status: 404, key: 'admin' },
  { listener: 'vercel', line: 'POST /v3/sandboxes', status: 504, key: 'admin' },
  { listener: 'daytona', line: 'POST /api/sandbox', status: 401 },
  { listener: 'daytona', line: 'POST /api/sandbox', status: 403, key: 'reader' },
  { listener: 'daytona', line: 'POST /api/nothing', status: 404, key: 'admin' },
  { listener: 'daytona', line: 'POST /api/sandbox', status: 504, key: 'admin' },
  { listener: 'opensandbox', line: 'POST /v1/sandboxes', status: 401 },
  { listener: 'opensandbox', line: 'POST /v1/sandboxes', status: 403, key: 'reader' },
  { listener: 'opensandbox', line: 'POST /nothing', status: 404, key: 'admin' },
  { listener: 'opensandbox', line: 'POST /v1/sandboxes', status: 504, key: 'admin' },
]

const portOf = (listener: Case['listener']) => {
  const { url, previewUrl, fronts } = daemon.daemon
  const address = listener === 'api' ? url : listener === 'preview' ? previewUrl! : fronts[listener]!
  return Number(new URL(address).port)
}
const headOf = ({ line, key, headers = '' }: Case, framing: string) => {
  const given = key === 'admin' ? daemon.key : reader
  const auth = key ? `authorization: Bearer ${given}\r\nx-api-key: ${given}\r\n` : ''
  return `${line} HTTP/1.1\r\nhost: x\r\n${auth}${headers}content-type: application/json\r\n${framing}\r\n\r\n`
}
const open = (listener: Case['listener']) => {
  const socket = connect(portOf(listener), '127.0.0.1')
  sockets.push(socket)
  socket.on('error', () => {})
  const got = { text: '' }
  socket.on('data', (chunk) => {
    got.text += chunk
  })
  return { socket, got, closed: once(socket, 'close') }
}
const statusOf = (text: string) => Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1])

describe.each([
  ['Content-Length', 'content-length: 100000', '{"name":', ' '],
  ['a long Content-Length', 'content-length: 100000000', '{"name":', ' '],
  ['chunks', 'transfer-encoding: chunked', '8\r\n{"name":\r\n', '1\r\n \r\n'],
])('a slow body with %s', (_, framing, first, more) => {
  it('is answered, and its connection closed, on every listener', async () => {
    const asked = cases.filter(({ status }) => status !== 504 || !framing.endsWith('00000000'))
    const startedAt = performance.now()
    await Promise.all(
      asked.map(async (one) => {
        const { socket, got, closed } = open(one.listener)
        socket.write(headOf(one, framing) + first)
        const timer = setInterval(() => socket.write(more), 100)
        const label = `${one.listener} ${one.line} ${one.status}`
        const late = new Promise((_, reject) =>
          setTimeout(() => reject(new Error(`${label} is still open; got: ${got.text}`)), 8_000),
        )
        await Promise.race([closed, late]).finally(() => clearInterval(timer))
        // 504: the time limit of the body has passed. Vendors' words for that differ.
        if (one.status === 504) expect(statusOf(got.text), label).toBeGreaterThanOrEqual(400)
        else expect(statusOf(got.text), label).toBe(one.status)
        expect(got.text.toLowerCase(), label).toContain('\r\nconnection: close')
      }),
    )
    expect(performance.now() - startedAt).toBeLessThan(8_000)
  })
})

it('answers a body above the limit while it is being sent', async () => {
  for (const listener of ['api', 'e2b', 'vercel', 'daytona', 'opensandbox'] as const) {
    const line = {
      api: 'POST /v1/sessions',
      e2b: 'POST /sandboxes',
      vercel: 'POST /v3/sandboxes',
      daytona: 'POST /api/sandbox',
      opensandbox: 'POST /v1/sandboxes',
    }[listener]
    const { socket, got, closed } = open(listener)
    socket.write(headOf({ listener, line, status: 413, key: 'admin' }, 'transfer-encoding: chunked'))
    const chunk = Buffer.from(`10000\r\n${' '.repeat(65_536)}\r\n`)
    // The client keeps sending without reading, and still gets the response.
    for (let sent = 0; sent < 40 && socket.writable; sent += 1) {
      socket.write(chunk)
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    await closed
    expect([400, 413], listener).toContain(statusOf(got.text))
  }
})

it('many concurrent ones leave no connection behind, and other requests are served', async () => {
  const before = descriptors().open
  const all = Array.from({ length: 300 }, (_, index) => {
    const one = cases[index % cases.length]!
    const { socket, closed } = open(one.listener)
    socket.write(`${headOf(one, 'content-length: 100000')}{`)
    return closed
  })
  expect((await daemon.call('GET', '/healthz')).status).toBe(200)
  await Promise.all(all)
  await expect.poll(() => descriptors().open, { timeout: 5_000 }).toBeLessThan(before + 20)
})

it('refused upgrades do not keep their connections either', async () => {
  for (const listener of ['api', 'preview', 'e2b', 'vercel', 'daytona', 'opensandbox'] as const) {
    const { socket, got } = open(listener)
    const upgrade =
      'connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n'
    // Half-open on our side: the server must not wait for our end.
    socket.write(`GET /nothing HTTP/1.1\r\nhost: x\r\n${upgrade}\r\n`)
    socket.removeAllListeners('end')
    const timer = setInterval(() => socket.writable && socket.write('x'), 50)
    await once(socket, 'close')
    clearInterval(timer)
    expect(statusOf(got.text), listener).toBe(404)
  }
})

it('a refused request with a complete body keeps its connection', async () => {
  for (const one of cases.filter(({ status, listener }) => status === 404 && listener !== 'preview')) {
    const { socket, got } = open(one.listener)
    for (let n = 1; n <= 3; n += 1) {
      socket.write(`${headOf(one, 'content-length: 2')}{}`)
      await expect.poll(() => got.text.match(/HTTP\/1\.1 404/g)?.length ?? 0, { interval: 5 }).toBe(n)
    }
    expect(got.text.toLowerCase(), one.listener).not.toContain('connection: close')
  }
})
