import { connect } from 'node:net'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'
import { lengthsAround, numbersAround, type Schema, Sizes } from './sizes.ts'

/** The memory provider runs functions instead of programs, so commands are harmless. */
let daemon: TestDaemon
const errors: string[] = []
const maxBodyBytes = 2 * 1_048_576
/** The limit of JSON bodies without file content or a program. */
const maxSmallBodyBytes = 524_288
beforeAll(async () => {
  const provider = new MemoryProvider({
    createOptions: ['resources', 'providerOptions', 'image'],
    shell: async () => ({ exitCode: 0 }) as never,
  })
  provider.command(
    () => true,
    async ({ stdout }) => void (await stdout.write('x')),
  )
  const quiet = () => {}
  const error = (facts: { err?: Error }, message: string) =>
    void errors.push(`${message} ${facts.err?.stack}`)
  daemon = await startTestDaemon(
    { max_body_mb: 2 },
    {
      provider: provider,
      log: { debug: quiet, info: quiet, warn: quiet, error },
    },
  )
})
afterAll(() => daemon?.stop())

/** Server errors. 501 means that this provider lacks a capability. */
const isFault = (status: number) => status >= 500 && status !== 501

interface Operation {
  parameters?: Array<{ name: string; in: string; required?: boolean; schema: Schema }>
  requestBody?: { content: Record<string, { schema: Schema }> }
}

interface Known {
  session: string
  exec: string
  snapshot: string
}

/** Creates the objects that operations refer to, and replaces those that a request has removed. */
async function ensure(known: Partial<Known>): Promise<Known> {
  const state = known.session && (await daemon.call('GET', `/v1/sessions/${known.session}`)).body.status
  if (state === 'running') return known as Known
  const session = await daemon.session()
  await daemon.call('POST', `/v1/sessions/${session}/run`, { cmd: 'x', exec_id: 'e1' })
  await daemon.fetch(`/v1/sessions/${session}/files?path=a`, { method: 'PUT', body: 'text' })
  const snapshot = await daemon.call('POST', `/v1/sessions/${session}/snapshots`, {})
  return Object.assign(known, { session, exec: 'e1', snapshot: snapshot.body?.id ?? 'none' }) as Known
}

describe('every size in the API’s document', () => {
  it('gets a response, never a 500, and leaks no memory', { timeout: 300_000 }, async () => {
    const { body: document } = await daemon.call('GET', '/openapi.json')
    const known: Partial<Known> = {}
    const faults: string[] = []
    let requests = 0
    const samples = { path: 'a', from: 'a', to: 'b', target: 'a', port: 8000, cmd: 'x', scopes: ['read'] }
    const sizes = new Sizes(document.components.schemas, samples)
    const startRss = process.memoryUsage.rss()

    const send = async (method: string, where: string, what: string, body?: unknown) => {
      requests += 1
      const response = await daemon.fetch(where, {
        method,
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(60_000),
      })
      // An event stream does not end by itself.
      const isStream = response.headers.get('content-type')?.includes('event-stream')
      if (isStream) await response.body?.cancel()
      else await response.arrayBuffer()
      if (isFault(response.status)) faults.push(`${response.status} ${method} ${what}`)
    }

    for (const [path, methods] of Object.entries<Record<string, Operation>>(document.paths))
      for (const [method, operation] of Object.entries(methods)) {
        const parameters = operation.parameters ?? []
        const verb = method.toUpperCase()
        const at = async (changed: { name?: string; value?: unknown } = {}) => {
          const { session, exec, snapshot } = await ensure(known)
          const ids: Record<string, string> = { id: session, exec_id: exec, snapshot_id: snapshot }
          const valueFor = (name: string, schema: Schema) =>
            changed.name === name ? changed.value : (ids[name] ?? sizes.valid(schema, name))
          let where = path
          const query = new URLSearchParams()
          for (const { name, in: place, required, schema } of parameters) {
            const value = String(valueFor(name, schema))
            if (place === 'path') where = where.replace(`{${name}}`, encodeURIComponent(value) || '%20')
            else if (place === 'query' && (required || changed.name === name)) query.set(name, value)
          }
          return `${where}${query.size > 0 ? `?${query}` : ''}`
        }
        const json = operation.requestBody?.content['application/json']?.schema
        const body = json && sizes.valid(json)
        for (const { name, schema } of parameters)
          for (const value of parameterValues(schema))
            await send(verb, await at({ name, value }), `${path} ${name}=${value.length} characters`, body)
        if (!json) continue
        for (const { what, value } of sizes.variants(json))
          await send(verb, await at(), `${path} ${what}`, value)
      }

    expect(faults).toEqual([])
    expect(errors).toEqual([])
    expect(requests).toBeGreaterThan(1000)
    globalThis.gc?.()
    // About 1,500 requests of up to 1 MiB: a leak of their bodies would show.
    expect((process.memoryUsage.rss() - startRss) / 1_048_576).toBeLessThan(500)
  })
})

/** Values for a parameter: numbers, and texts of several lengths. URLs of more than 16 KiB are refused. */
function parameterValues(schema: Schema): string[] {
  const numbers = numbersAround(1000).map(String)
  const lengths = lengthsAround(schema.maxLength ?? 500).filter((length) => length <= 20_000)
  return [...numbers, '1e400', '-1', ...lengths.map((length) => 'a'.repeat(length))]
}

describe('declared and real sizes of requests', () => {
  /** Sends raw bytes. Returns the status of the response, or `closed`. */
  const raw = (text: string, send: 'end' | 'write' = 'end') =>
    new Promise<number | 'closed'>((resolve, reject) => {
      const { hostname, port } = new URL(daemon.daemon.url)
      const socket = connect(Number(port), hostname)
      const timer = setTimeout(() => reject(new Error(`no answer to ${text.slice(0, 200)}`)), 50_000)
      const done = (result: number | 'closed') => {
        clearTimeout(timer)
        socket.destroy()
        resolve(result)
      }
      let answer = ''
      socket.on('data', (chunk) => {
        answer += chunk
        const status = /^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1]
        if (status !== undefined && answer.includes('\r\n\r\n')) done(Number(status))
      })
      socket.on('error', () => {})
      socket.on('close', () => done('closed'))
      socket[send](text)
    })
  const head = (lines: string[], target = '/v1/sessions', method = 'POST') =>
    `${[`${method} ${target} HTTP/1.1`, 'host: x', `authorization: Bearer ${daemon.key}`, ...lines].join('\r\n')}\r\n\r\n`
  const sent = (length: number | string) => [`content-length: ${length}`]

  const lengths = [...numbersAround(maxBodyBytes), 2 ** 63, '18446744073709551616', '-1', '1e3', '0x10']
  it.each(lengths)('content-length: %s', async (length) => {
    const status = await raw(head(sent(length)) + '{}'.slice(0, Number(length)))
    expect(status === 'closed' || status < 500).toBe(true)
  })

  it.each([
    '0',
    '1',
    '7fffffff',
    '80000000',
    '1fffffffffffff',
    'ffffffffffffffff',
    '10000000000000000',
    '-1',
  ])('a chunk of %s bytes (hexadecimal)', async (size) => {
    const status = await raw(`${head(['transfer-encoding: chunked'])}${size}\r\n{\r\n0\r\n\r\n`)
    expect(status === 'closed' || status < 500).toBe(true)
  })

  it.each([-1, 0, 1])('a body of the limit %i bytes', async (more) => {
    const small = maxSmallBodyBytes + more
    expect(await raw(head(sent(small)) + '{}'.padEnd(small), 'write')).toBe(more > 0 ? 413 : 201)
    const large = maxBodyBytes + more
    const run = `/v1/sessions/${await daemon.session()}/run`
    expect(await raw(head(sent(large), run) + '{"cmd":"x"}'.padEnd(large), 'write')).toBe(
      more > 0 ? 413 : 200,
    )
  })

  it.each([0, 1, 100, 10_000, 1_000_000])('JSON that is %i levels deep', async (depth) => {
    const body = '['.repeat(depth) + ']'.repeat(depth)
    const run = `/v1/sessions/${await daemon.session()}/run`
    expect(await raw(head(sent(body.length), run) + body, 'write')).toBe(400)
  })

  const headers = [
    'idempotency-key',
    'sandkasten-incarnation',
    'x-request-id',
    'range',
    'accept',
    'last-event-id',
  ]
  it.each(headers)('the header %s at every length', async (name) => {
    const id = await daemon.session()
    for (const length of [...lengthsAround(200), 15_000, 16_384, 20_000].filter((one) => one <= 20_000))
      for (const value of ['a', '9'].map((letter) => letter.repeat(length)))
        for (const [target, method] of [
          ['/v1/sessions', 'POST'],
          [`/v1/sessions/${id}/files?path=none`, 'GET'],
        ] as const) {
          const status = await raw(
            head([`${name}: ${value}`, ...(method === 'POST' ? sent(2) : [])], target, method) +
              (method === 'POST' ? '{}' : ''),
          )
          expect(status === 'closed' || status < 500, `${name}: ${length} × ${value[0]}: ${status}`).toBe(
            true,
          )
        }
  })

  it('ranges of a file at every number', async () => {
    const id = await daemon.session()
    await daemon.fetch(`/v1/sessions/${id}/files?path=f`, { method: 'PUT', body: '0123456789' })
    const read = async (range: string) => {
      const response = await daemon.fetch(`/v1/sessions/${id}/files?path=f`, { headers: { range } })
      return { status: response.status, text: response.ok ? await response.text() : '' }
    }
    for (const number of [...numbersAround(10), '9'.repeat(20), '9'.repeat(400)])
      for (const range of [
        `bytes=${number}-`,
        `bytes=0-${number}`,
        `bytes=-${number}`,
        `bytes=${number}-${number}`,
      ]) {
        const { status, text } = await read(range)
        expect([200, 206, 400, 416], range).toContain(status)
        expect(text.length, range).toBeLessThanOrEqual(10)
      }
  })
})
