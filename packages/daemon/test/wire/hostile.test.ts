import { once } from 'node:events'
import { connect } from 'node:net'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'
import { fuzz } from './fuzz.ts'

/** The memory provider runs functions instead of programs, so fuzzed commands are harmless. */
let daemon: TestDaemon
const logged: string[] = []
beforeAll(async () => {
  const provider = new MemoryProvider({
    createOptions: ['resources', 'providerOptions', 'image'],
    shell: async () => ({ exitCode: 0 }) as never,
  })
  provider.command(
    () => true,
    async ({ stdout }) => void (await stdout.write('x')),
  )
  const note = (level: string) => (facts: object, message: string) => {
    if (level === 'error')
      logged.push(
        `${message} ${JSON.stringify(facts, (_, value) => (value instanceof Error ? value.stack : value))}`,
      )
  }
  daemon = await startTestDaemon(
    { quotas: { sessions: 10 }, max_body_mb: 1 },
    {
      provider: provider,
      log: { debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') },
    },
  )
})
afterAll(() => daemon?.stop())

describe('the API, fuzzed from its own document', () => {
  it('never answers with 500, and never hangs', async () => {
    const seen = await fuzz(daemon, { seed: 20_261_115, rounds: 10, logged })
    expect(seen).toEqual(expect.arrayContaining([200, 201, 400, 404]))
    expect(logged).toEqual([])
  })
})

describe('bodies', () => {
  const post = (body: RequestInit['body'], headers: Record<string, string> = {}) =>
    daemon.fetch('/v1/sessions', { method: 'POST', body, headers })

  it.each<[string, RequestInit['body'], number]>([
    ['too large', ' '.repeat(1_100_000), 413],
    ['too deep', `${'['.repeat(200_000)}${']'.repeat(200_000)}`, 400],
    ['not JSON', '{"name":', 400],
    ['not UTF-8', new Uint8Array([0x22, 0xff, 0x22]), 400],
    ['not an object', '[1]', 400],
    ['with an unknown key', '{"imagee":"host"}', 400],
    ['with a prototype', '{"__proto__":{"image":"x"},"labels":{"__proto__":"x"}}', 400],
  ])('%s are refused', async (_, body, status) => {
    const response = await post(body)
    expect(response.status).toBe(status)
    expect(response.headers.get('content-type')).toMatch(/^application\/problem\+json/)
  })

  it('are read only after authorization', async () => {
    const { hostname, port } = new URL(daemon.daemon.url)
    const socket = connect(Number(port), hostname)
    // Only the head; a server that waited for the body first would never answer.
    socket.write('POST /v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n')
    const [data] = await once(socket, 'data')
    expect(data.toString()).toMatch(/^HTTP\/1\.1 401 /)
    socket.destroy()
  })

  it.each([
    [
      'both lengths',
      'POST /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['no HTTP at all', 'hello\r\n\r\n'],
    ['a header that is too large', `GET /healthz HTTP/1.1\r\nhost: x\r\na: ${'b'.repeat(20_000)}\r\n\r\n`],
    ['a bare line feed in a header', 'GET /healthz HTTP/1.1\r\nhost: x\r\na: b\nc: d\r\n\r\n'],
  ])('%s: the connection is closed', async (_, text) => {
    const { hostname, port } = new URL(daemon.daemon.url)
    const socket = connect(Number(port), hostname)
    let answer = ''
    socket.on('data', (data) => {
      answer += data
    })
    socket.on('error', () => {})
    socket.write(text)
    await once(socket, 'close')
    expect(answer).toMatch(/^(HTTP\/1\.1 4\d\d [\s\S]*)?$/)
  })

  it('an unsafe request id is replaced', async () => {
    const odd = await daemon.call('GET', '/healthz', undefined, { headers: { 'x-request-id': 'a b;c' } })
    expect(odd.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
    const own = await daemon.call('GET', '/healthz', undefined, { headers: { 'x-request-id': 'mine.1' } })
    expect(own.headers.get('x-request-id')).toBe('mine.1')
  })
})
