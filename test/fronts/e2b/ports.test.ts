import { type IncomingMessage, request as requestHttp } from 'node:http'
import { E2B, type Sandbox } from 'e2b'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { startTestDaemon, type TestDaemon } from '../../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../../packages/daemon/src/testing/isolator.ts'

const skipped = await isolationMissing()

describe.skipIf(skipped !== undefined)('ports of the front for E2B’s SDK', () => {
  let daemon: TestDaemon
  let url: string
  let e2b: E2B
  let box: Sandbox
  beforeAll(async () => {
    daemon = await startTestDaemon({
      isolator: 'oci',
      preview_listen: 'off',
      fronts: { e2b: { listen: '127.0.0.1:0' } },
    })
    url = daemon.daemon.fronts.e2b!
    e2b = new E2B({ apiKey: daemon.key, apiUrl: url, sandboxUrl: url })
    box = await e2b.Sandbox.create({ timeoutMs: 600_000 })
  })
  afterAll(() => daemon?.stop())

  const server = `
      const { createServer } = require('node:http')
      const { createHash } = require('node:crypto')
      createServer((q, a) => a.end(JSON.stringify({ path: q.url, headers: q.headers })))
        .on('upgrade', (q, s) => {
          const accept = createHash('sha1').update(q.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64')
          s.write('HTTP/1.1 101 X\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: ' + accept + '\\r\\n\\r\\n')
          s.write(Buffer.from([0x81, 2, 0x68, 0x69]))
        })
        .listen(3000, () => console.log('ready'))`
  const serving = async (own: Sandbox) => {
    let ready = false
    await own.commands.run(`node -e "$SERVER"`, {
      background: true,
      timeoutMs: 0,
      envs: { SERVER: server },
      onStdout: () => {
        ready = true
      },
    })
    await expect.poll(() => ready).toBe(true)
  }
  /** Node does not resolve names below localhost, so the host header is set manually. */
  const visit = (host: string, headers: Record<string, string> = {}) =>
    new Promise<{ status: number; text: string }>((resolve, reject) => {
      const { hostname, port } = new URL(url)
      requestHttp(
        { hostname, port, path: '/some?query', headers: { ...headers, host } },
        (answer: IncomingMessage) => {
          let text = ''
          answer.setEncoding('utf8').on('data', (chunk) => {
            text += chunk
          })
          answer.on('end', () => resolve({ status: answer.statusCode!, text }))
        },
      )
        .on('error', reject)
        .end()
    })

  it('are reached by host and by headers, with WebSockets; a closed one is reported', async () => {
    await serving(box)
    const byHost = await visit(box.getHost(3000), { cookie: 'a=b' })
    expect(JSON.parse(byHost.text)).toMatchObject({
      path: '/some?query',
      headers: { host: 'localhost:3000', cookie: 'a=b' },
    })
    const headers = {
      'e2b-sandbox-id': box.sandboxId,
      'e2b-sandbox-port': '3000',
      'x-api-key': daemon.key,
    }
    // biome-ignore lint/suspicious/noExplicitAny: looked into.
    const byHeaders: any = await (await fetch(`${url}/other`, { headers })).json()
    expect(byHeaders.path).toBe('/other')
    for (const name of Object.keys(headers)) expect(byHeaders.headers).not.toHaveProperty(name)
    expect(await visit(box.getHost(3001))).toMatchObject({ status: 502 })
    expect(await visit(`3000-aaaaaaaaaaaaaaaa.${box.getHost(1).split('.')[1]}`)).toMatchObject({
      status: 502,
    })
    // A host of another domain is not a sandbox: the control plane responds.
    expect((await visit(`3000-${box.sandboxId}.example.com`)).status).toBe(404)
    const socket = new WebSocket(url.replace('http', 'ws'), { headers })
    const said = await new Promise((resolve, reject) =>
      socket.on('message', (data) => resolve(String(data))).on('error', reject),
    )
    socket.terminate()
    expect(said).toBe('hi')
  })

  it('of a private sandbox need its token', async () => {
    const own = await e2b.Sandbox.create({ network: { allowPublicTraffic: false } })
    await serving(own)
    const host = own.getHost(3000)
    expect((await visit(host)).status).toBe(502)
    expect((await visit(host, { 'e2b-traffic-access-token': 'wrong' })).status).toBe(502)
    const seen = await visit(host, { 'e2b-traffic-access-token': own.trafficAccessToken! })
    expect(seen.status).toBe(200)
    expect(JSON.parse(seen.text).headers).not.toHaveProperty('e2b-traffic-access-token')
    await own.kill()
  })

  it('of a session that was created elsewhere are closed', async () => {
    const id = await daemon.session({})
    const found = await e2b.Sandbox.connect(id)
    expect((await found.commands.run('echo ours')).stdout).toBe('ours\n')
    await serving(found)
    expect((await visit(found.getHost(3000))).status).toBe(502)
    expect(
      (await visit(found.getHost(3000), { 'e2b-traffic-access-token': found.trafficAccessToken! })).status,
    ).toBe(200)
    await found.kill()
  })

  it('are closed when the daemon ends, even if no side closes them', async () => {
    const own = await e2b.Sandbox.create()
    await serving(own)
    const headers = { 'e2b-sandbox-id': own.sandboxId, 'e2b-sandbox-port': '3000' }
    const socket = new WebSocket(url.replace('http', 'ws'), { headers })
    await new Promise((resolve, reject) => socket.on('message', resolve).on('error', reject))
    const closed = new Promise((resolve) => socket.on('close', resolve))
    await daemon.restart()
    await closed
  })
})

if (skipped !== undefined) it('the ports of the front for E2B’s SDK', ({ skip }) => skip(skipped))
