import { once } from 'node:events'
import { connect } from 'node:net'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import Fastify from 'fastify'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { FrontPlace } from '../../packages/daemon/src/fronts/front.ts'
import { allFronts } from '../../packages/daemon/src/fronts/index.ts'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'

/**
 * Well-formed HTTP requests with arbitrary content. Programs of this provider are functions, so nothing is executed.
 */
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
  const quiet = () => {}
  const error = (facts: object, message: string) => {
    const stack = (_: string, value: unknown) => (value instanceof Error ? value.stack : value)
    logged.push(`${message} ${JSON.stringify(facts, stack)}`)
  }
  const listen = { listen: '127.0.0.1:0' }
  daemon = await startTestDaemon(
    { fronts: { e2b: listen, vercel: listen, daytona: listen, opensandbox: listen } },
    {
      provider: provider,
      log: { debug: quiet, info: quiet, warn: quiet, error },
    },
  )
})
afterAll(() => daemon?.stop())

interface Found {
  readonly method: string
  readonly url: string
}

/** The routes that a front registers. No handler runs, so its services can be anything. */
function routesOf(name: keyof typeof allFronts): Found[] {
  const anything: unknown = new Proxy(() => {}, {
    get: (_, key) => (key === Symbol.toPrimitive ? () => '' : anything),
    apply: () => anything,
  })
  const found: Found[] = []
  const app = Fastify()
  for (const decoration of ['caller', 'target', 'changes', 'session'])
    app.decorateRequest(decoration, undefined)
  app.addHook('onRoute', ({ method, url }) => {
    found.push({ method: String(method), url })
  })
  allFronts[name](app, { services: anything, records: anything, url: 'http://x' } as FrontPlace)
  return found
}

const bodies = [
  'null',
  '[]',
  '1',
  '"x"',
  'true',
  '[null]',
  '{"x":null}',
  '{"process":null}',
  '{"process":[]}',
  '',
]
const parameters = ['%', '%00', '%2e%2e%2f', '..', '%ff', 'x', `${'a'.repeat(200)}`, '%F0%9F%92%A5']
const framed = (text: string) => {
  const bytes = Buffer.from(text)
  const head = Buffer.alloc(5)
  head.writeUInt32BE(bytes.length, 1)
  return Buffer.concat([head, bytes])
}

describe.each(['e2b', 'vercel', 'daytona', 'opensandbox'] as const)('the front %s', (name) => {
  const send = async (method: string, path: string, init: RequestInit = {}) => {
    const stop = AbortSignal.timeout(10_000)
    const response = await fetch(`${daemon.daemon.fronts[name]}${path}`, {
      method,
      ...init,
      headers: {
        authorization: `Bearer ${daemon.key}`,
        'x-api-key': daemon.key,
        'content-type': 'application/json',
        ...init.headers,
      },
      signal: stop,
    })
    // The first chunk of a stream is enough.
    const reader = response.body?.getReader()
    const quiet = new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), 200))
    const first = await Promise.race([reader?.read(), quiet])
    await reader?.cancel().catch(() => {})
    return { status: response.status, text: Buffer.from(first?.value ?? []).toString() }
  }
  const created = async (): Promise<{ id: string; headers: Record<string, string> }> => {
    const [path, body] = {
      e2b: ['/sandboxes', { templateID: 'base' }],
      vercel: ['/v3/sandboxes', {}],
      daytona: ['/api/sandbox', {}],
      opensandbox: ['/v1/sandboxes', { image: { uri: 'host' }, timeout: 600 }],
    }[name] as [string, object]
    const { text } = await send('POST', path, { body: JSON.stringify(body) })
    const made = JSON.parse(text)
    if (name !== 'e2b') return { id: made.session?.id ?? made.id, headers: {} }
    const headers = { 'e2b-sandbox-id': made.sandboxID, 'x-access-token': made.envdAccessToken }
    return { id: made.sandboxID, headers }
  }

  it('answers every route and every kind of JSON without a 500', async () => {
    const routes = routesOf(name).filter(({ method }) => /^(GET|POST|PUT|PATCH|DELETE)$/.test(method))
    expect(routes.length).toBeGreaterThan(10)
    let box = await created()
    const ask = async (method: string, path: string, init: RequestInit) => {
      const headers = { ...box.headers, ...(init.headers as Record<string, string>) }
      const { status, text } = await send(method, path, { ...init, headers })
      const label = `${method} ${path} ${String(init.body)} → ${status} ${text.slice(0, 300)}`
      expect(status, label).not.toBe(500)
      // Connect streams report errors in their last frame.
      expect(text, label).not.toMatch(/"code":"internal"/)
      return status
    }
    for (const { method, url } of routes) {
      const withBody = method !== 'GET' && method !== 'DELETE'
      const known = url.replace(/:\w+/g, box.id).replace('*', 'x')
      for (const body of withBody ? bodies : ['']) {
        const init = withBody && body !== '' ? { body } : {}
        if ((await ask(method, known, init)) === 404) box = await created()
        if (name === 'e2b' && url.includes('.') && withBody)
          await ask(method, known, {
            body: framed(body),
            headers: { 'content-type': 'application/connect+json' },
          })
      }
      if (url.includes(':'))
        for (const odd of parameters) await ask(method, url.replace(/:\w+/g, odd).replace('*', odd), {})
    }
    expect(logged.splice(0)).toEqual([])
  }, 120_000)
})

const upgrades = [
  '//',
  '//x',
  '/',
  '/?',
  '/%',
  '/%ff?%',
  '///',
  '/v1//',
  '/..',
  '/v1/sessions/%/terminals/%/ws',
  '/toolbox/%/process/pty/%/connect',
  'http://x/',
  '*',
  '/\\',
  '/?a=%zz',
]

describe.each(['api', 'preview', 'e2b', 'vercel', 'daytona', 'opensandbox'] as const)(
  'upgrades of %s',
  (name) => {
    it.each(upgrades)('to %s are refused', async (path) => {
      const { url, previewUrl, fronts } = daemon.daemon
      const address = name === 'api' ? url : name === 'preview' ? previewUrl! : fronts[name]!
      for (const method of ['upgrade', 'plain']) {
        const socket = connect(Number(new URL(address).port), '127.0.0.1')
        const head = [
          `GET ${path} HTTP/1.1`,
          'host: x',
          `authorization: Bearer ${daemon.key}`,
          ...(method === 'plain'
            ? ['connection: close']
            : [
                'connection: upgrade',
                'upgrade: websocket',
                'sec-websocket-version: 13',
                'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==',
              ]),
        ]
        socket.write(`${head.join('\r\n')}\r\n\r\n`)
        let text = ''
        socket.on('data', (chunk) => {
          text += chunk
        })
        await once(socket, 'close')
        expect(text, `${method} ${path}`).toMatch(/^HTTP\/1\.1 (30[18]|4\d\d) /)
      }
      expect(logged.splice(0)).toEqual([])
    })
  },
)
