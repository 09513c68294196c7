import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'

/** Slow clients, clients that do not read, and many clients. Others are served meanwhile, and slow ones are cut off. */
let daemon: TestDaemon
const sockets: Socket[] = []
beforeAll(async () => {
  daemon = await startTestDaemon({}, { patience: { headMs: 1_000, bodyMs: 1_000 } })
})
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy()
})
afterAll(() => daemon?.stop())

const authorization = () => `authorization: Bearer ${daemon.key}\r\n`

/** Opens a connection that sends `start`, and then `more` at intervals until the daemon closes it. */
function drip(url: string, start: string, more: string): { socket: Socket; ended: Promise<string> } {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  sockets.push(socket)
  let text = ''
  socket.on('error', () => {})
  socket.on('data', (chunk) => {
    text += chunk
  })
  socket.write(start)
  const timer = setInterval(() => socket.write(more), 100)
  const ended = once(socket, 'close').then(() => {
    clearInterval(timer)
    return text
  })
  return { socket, ended }
}

describe('slow', () => {
  it.each(['the API', 'previews'])(
    'heads are not waited for by %s, and others are served meanwhile',
    async (which) => {
      const url = which === 'the API' ? daemon.daemon.url : daemon.daemon.previewUrl!
      const slow = Array.from({ length: 50 }, () => drip(url, 'GET /healthz HTTP/1.1\r\nhost: x\r\n', 'x'))
      expect((await daemon.call('GET', '/healthz')).status).toBe(200)
      for (const { ended } of slow) expect(await ended).toMatch(/^(HTTP\/1\.1 40[08] [\s\S]*)?$/)
      expect((await daemon.call('GET', '/healthz')).status).toBe(200)
    },
  )

  it.each([
    ['JSON', 'POST /v1/sessions', 'application/problem+json'],
    ['a short body on a route without one', 'GET /v1/nothing', 'application/problem+json'],
  ])('bodies: %s', async (_, line, type) => {
    const head = `${line} HTTP/1.1\r\nhost: x\r\n${authorization()}content-length: 100000\r\n\r\n`
    const { socket, ended } = drip(daemon.daemon.url, `${head}{"name":`, ' ')
    await once(socket, 'data')
    // The daemon responds with a timeout, or closes the connection after its response.
    if (line.startsWith('POST')) expect(await ended).toMatch(/^HTTP\/1\.1 504 [\s\S]*connection: close/)
    else socket.destroy()
    expect(type).toBeDefined()
  })

  it('uploads that stop leave nothing behind, and the session works on', async () => {
    const id = await daemon.session()
    const put = `PUT /v1/sessions/${id}/files?path=up HTTP/1.1\r\nhost: x\r\n${authorization()}content-length: 100000\r\n\r\nbegun`
    const { ended } = drip(daemon.daemon.url, put, '')
    await ended
    const list = (await daemon.call('GET', `/v1/sessions/${id}/files/list?path=.`)).body
    expect(JSON.stringify(list)).not.toContain('"up"')
    expect((await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'echo yes' })).body.output).toBe(
      'yes\n',
    )
  })
})

describe('readers', () => {
  it('a client that does not read slows only its own program, within bounded memory', async () => {
    const id = await daemon.session()
    const before = process.memoryUsage.rss()
    const body = JSON.stringify({ cmd: 'sh', args: ['-c', 'yes | head -c 300000000'], stream: true })
    const head = `POST /v1/sessions/${id}/run HTTP/1.1\r\nhost: x\r\n${authorization()}content-length: ${body.length}\r\n\r\n`
    for (let n = 0; n < 4; n += 1) {
      const socket = connect(Number(new URL(daemon.daemon.url).port), '127.0.0.1')
      sockets.push(socket)
      socket.on('error', () => {})
      socket.write(head + body)
      await once(socket, 'readable')
    }
    for (let n = 0; n < 30; n += 1)
      expect((await daemon.call('POST', `/v1/sessions/${id}/run`, { cmd: 'true' })).body.exit_code).toBe(0)
    expect(process.memoryUsage.rss() - before).toBeLessThan(300_000_000)
  })
})

describe('many', () => {
  it('thousands of idle connections and event readers cost little and block no request', async () => {
    const { port } = new URL(daemon.daemon.url)
    const before = process.memoryUsage.rss()
    for (let n = 0; n < 1500; n += 1) {
      const socket = connect(Number(port), '127.0.0.1')
      sockets.push(socket)
      socket.on('error', () => {})
      if (n % 3 === 0) socket.write(`GET /v1/events HTTP/1.1\r\nhost: x\r\n${authorization()}\r\n`)
      if (n % 100 === 99) await once(socket, 'connect')
    }
    const id = await daemon.session({ name: 'seen-by-all' })
    expect((await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'echo yes' })).body.output).toBe(
      'yes\n',
    )
    await daemon.call('DELETE', `/v1/sessions/${id}`)
    expect(process.memoryUsage.rss() - before).toBeLessThan(400_000_000)
  })
})

describe('a daemon that is stopping', () => {
  it('answers 503 with a problem until it has stopped', async () => {
    const other = await startTestDaemon()
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const ask = () =>
      new Promise<{ status?: number; type?: string; retry?: string; text: string }>((resolve, reject) => {
        const { hostname, port } = new URL(other.daemon.url)
        const outgoing = request(
          { agent, hostname, port, path: '/v1/whoami', headers: { authorization: `Bearer ${other.key}` } },
          async (response) => {
            let text = ''
            for await (const chunk of response) text += chunk
            const { 'content-type': type, 'retry-after': retry } = response.headers
            resolve({ status: response.statusCode, type, retry, text })
          },
        )
        outgoing.on('error', reject).end()
      })
    try {
      expect((await ask()).status).toBe(200)
      // The daemon waits briefly for a client that does not read, so the test can send a request meanwhile.
      const id = await other.session()
      const body = JSON.stringify({ cmd: 'sh', args: ['-c', 'yes'], stream: true })
      const stuck = connect(Number(new URL(other.daemon.url).port), '127.0.0.1')
      sockets.push(stuck)
      stuck.on('error', () => {})
      stuck.write(
        `POST /v1/sessions/${id}/run HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${other.key}\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      )
      await once(stuck, 'readable')
      const closing = other.daemon.close()
      const answer = await ask()
      expect(answer).toMatchObject({ status: 503, type: expect.stringContaining('problem+json'), retry: '1' })
      expect(JSON.parse(answer.text)).toMatchObject({ code: 'unavailable', retryable: true })
      await closing
      await expect(ask()).rejects.toThrow()
    } finally {
      agent.destroy()
      await other.restart()
      await other.stop()
    }
  })
})
