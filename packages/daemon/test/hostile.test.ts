import { once } from 'node:events'
import { connect } from 'node:net'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { DaemonProvider } from '../src/sessions/index.ts'
import { startTestDaemon, type TestDaemon } from '../src/testing/daemon.ts'

/** Nothing that is sent here is run: programs of this provider are functions. */
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
      provider: provider as unknown as DaemonProvider,
      log: { debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') },
    },
  )
})
afterAll(() => daemon?.stop())

/** The same every time. */
function numbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

describe('the API, fuzzed from its own document', () => {
  it('never answers with 500, and never hangs', async () => {
    const { body: document } = await daemon.call('GET', '/openapi.json')
    const random = numbers(20_261_115)
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!
    const odd = [
      '',
      ' ',
      '..',
      '../../x',
      '%00',
      '\0',
      'a'.repeat(300),
      '💥',
      '‮',
      '{"a":1}',
      '0',
      '-1',
      '1e9',
      'null',
      '%',
      '/',
      "';--",
    ]
    let id = ''
    const value = (schema: Schema, depth = 0): unknown => {
      const { $ref } = schema
      if ($ref) return value(document.components.schemas[$ref.split('/').at(-1)!], depth + 1)
      if (random() < 0.08) return pick<unknown>([null, 1, -1, 1e308, '', [], {}, true, 'x', [[[[]]]], ...odd])
      if (schema.const !== undefined) return schema.const
      if (schema.enum) return pick(schema.enum)
      if (schema.anyOf) return value(pick(schema.anyOf), depth + 1)
      if (schema.type === 'object' && schema.properties)
        return Object.fromEntries(
          Object.entries(schema.properties)
            .filter(([name]) => schema.required?.includes(name) || random() < 0.4)
            .map(([name, inner]) => [name, value(inner, depth + 1)]),
        )
      if (schema.type === 'object') return { [pick(['a', '__proto__', 'constructor', ''])]: pick(odd) }
      if (schema.type === 'array')
        return Array.from({ length: Math.floor(random() * 3) }, () => value(schema.items ?? {}, depth + 1))
      if (schema.type === 'integer' || schema.type === 'number')
        return pick([0, 1, 2, 100, 5000, -1, 1.5, 2 ** 53])
      if (schema.type === 'boolean') return random() < 0.5
      return pick(['a', 'b', 'e1', 'aGk=', ...odd])
    }
    const operations = Object.entries<Record<string, Operation>>(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({
        method: method.toUpperCase(),
        path,
        operation,
      })),
    )
    const seen = new Set<number>()
    for (let round = 0; round < 10; round += 1) {
      for (const { method, path, operation } of operations) {
        if (id === '' || random() < 0.1) id = (await daemon.call('POST', '/v1/sessions', {})).body.id ?? id
        const where = path.replace(/\{(\w+)\}/g, (_, name) =>
          encodeURIComponent(name === 'id' && random() < 0.8 ? id : pick(['e1', ...odd])),
        )
        const query = new URLSearchParams()
        for (const parameter of operation.parameters ?? [])
          if (parameter.in === 'query' && (parameter.required || random() < 0.5))
            query.set(parameter.name, String(value(parameter.schema)))
        const content = operation.requestBody?.content
        const body = content?.['application/json']
          ? JSON.stringify(value(content['application/json'].schema))
          : content
            ? pick(odd)
            : undefined
        const leaving = new AbortController()
        const response = await daemon.fetch(`${where}?${query}`, {
          method,
          body,
          signal: leaving.signal,
          headers: { 'idempotency-key': pick(['', 'k']) },
        })
        seen.add(response.status)
        expect(response.status, `${method} ${where}?${query} ${body}\n${logged.join('\n')}`).not.toBe(500)
        if (response.status >= 400)
          expect(((await response.json()) as { type: string }).type).toMatch(/^urn:sandkasten:problem:/)
        else if (!response.headers.get('content-type')?.includes('event-stream')) await response.arrayBuffer()
        leaving.abort()
      }
    }
    expect([...seen]).toEqual(expect.arrayContaining([200, 201, 400, 404]))
    expect(logged).toEqual([])
  })
})

interface Schema {
  $ref?: string
  type?: string
  const?: unknown
  enum?: unknown[]
  anyOf?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
}
interface Operation {
  parameters?: Array<{ name: string; in: string; required: boolean; schema: Schema }>
  requestBody?: { content: Record<string, { schema: Schema }> }
}

describe('bodies', () => {
  const post = (body: RequestInit['body'], headers: Record<string, string> = {}) =>
    daemon.fetch('/v1/sessions', { method: 'POST', body, headers })

  it.each<[string, RequestInit['body'], number]>([
    ['too large', ' '.repeat(1_100_000), 413],
    ['too deep', `${'['.repeat(400_000)}${']'.repeat(400_000)}`, 400],
    ['not JSON', '{"name":', 400],
    ['not UTF-8', new Uint8Array([0x22, 0xff, 0x22]), 400],
    ['not an object', '[1]', 400],
    ['with a key that nobody knows', '{"imagee":"host"}', 400],
    ['with a prototype', '{"__proto__":{"image":"x"},"labels":{"__proto__":"x"}}', 400],
  ])('%s are refused', async (_, body, status) => {
    const response = await post(body)
    expect(response.status).toBe(status)
    expect(response.headers.get('content-type')).toMatch(/^application\/problem\+json/)
  })

  it('are not read before the key is', async () => {
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

  it('a request id that could break a log or a header is replaced', async () => {
    const odd = await daemon.call('GET', '/healthz', undefined, { headers: { 'x-request-id': 'a b;c' } })
    expect(odd.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
    const own = await daemon.call('GET', '/healthz', undefined, { headers: { 'x-request-id': 'mine.1' } })
    expect(own.headers.get('x-request-id')).toBe('mine.1')
  })
})
