import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'

const missing = await isolationMissing()

type FrontName = 'daytona' | 'e2b' | 'opensandbox' | 'vercel'

/** One request with a variable number (`n`) or text (`s`). */
interface Row {
  readonly front: FrontName
  readonly request: string
  readonly body?: (size: never) => unknown
  readonly headers?: (size: never) => Record<string, string>
  readonly kind: 'n' | 's'
}

const n = (front: FrontName, request: string, body?: (n: number) => unknown): Row => ({
  front,
  request,
  kind: 'n',
  body,
})
const s = (front: FrontName, request: string, body?: (s: string) => unknown): Row => ({
  front,
  request,
  kind: 's',
  body,
})

/** `:id` is a sandbox of that front, `:size` the number or text. */
const rows: Row[] = [
  n('e2b', 'POST /sandboxes', (timeout) => ({ timeout })),
  n('e2b', 'POST /sandboxes/:id/timeout', (timeout) => ({ timeout })),
  n('e2b', 'POST /sandboxes/:id/connect', (timeout) => ({ timeout })),
  n('e2b', 'POST /sandboxes/:id/refreshes', (duration) => ({ duration })),
  n('e2b', 'GET /v2/sandboxes?limit=:size'),
  n('e2b', 'GET /snapshots?limit=:size'),
  n('e2b', 'GET /v2/sandboxes/:id/logs?limit=:size'),
  n('e2b', 'GET /v2/sandboxes/:id/logs?cursor=:size'),
  n('e2b', 'GET /sandboxes/:id/metrics?start=:size'),
  n('e2b', 'GET /sandboxes/:id/metrics?end=:size'),
  n('e2b', 'POST /filesystem.Filesystem/ListDir', (depth) => ({ path: '/etc', depth })),
  n('e2b', 'POST /process.Process/SendInput', (pid) => ({ process: { pid }, input: { stdin: 'YQ==' } })),
  n('e2b', 'POST /process.Process/Update', (cols) => ({
    process: { pid: 1 },
    pty: { size: { cols, rows: 1 } },
  })),
  n('e2b', 'POST /process.Process/SendSignal', (signal) => ({ process: { pid: 1 }, signal })),
  s('e2b', 'POST /sandboxes', (text) => ({ metadata: { k: text } })),
  s('e2b', 'POST /sandboxes', (text) => ({ metadata: { [text]: 'v' } })),
  s('e2b', 'POST /sandboxes', (text) => ({ envVars: { A: text } })),
  s('e2b', 'POST /sandboxes', (text) => ({ templateID: text })),
  s('e2b', 'GET /v2/sandboxes?nextToken=:size'),
  s('e2b', 'GET /v2/sandboxes?metadata=:size'),
  s('e2b', 'POST /filesystem.Filesystem/Stat', (path) => ({ path })),
  s('e2b', 'POST /filesystem.Filesystem/MakeDir', (path) => ({ path })),
  s('e2b', 'GET /files?path=:size'),
  n('daytona', 'POST /api/sandbox', (cpu) => ({ cpu })),
  n('daytona', 'POST /api/sandbox', (memory) => ({ memory })),
  n('daytona', 'POST /api/sandbox', (disk) => ({ disk })),
  n('daytona', 'POST /api/sandbox', (autoStopInterval) => ({ autoStopInterval })),
  n('daytona', 'POST /api/sandbox', (autoDeleteInterval) => ({ autoDeleteInterval })),
  n('daytona', 'POST /api/sandbox', (ttlMinutes) => ({ ttlMinutes })),
  n('daytona', 'POST /api/sandbox/:id/autostop/:size'),
  n('daytona', 'POST /api/sandbox/:id/autodelete/:size'),
  n('daytona', 'POST /api/sandbox/:id/ttl/:size'),
  n('daytona', 'GET /api/sandbox?limit=:size'),
  n('daytona', 'GET /api/sandbox?page=:size'),
  n('daytona', 'GET /api/sandbox/:id/ports/:size/preview-url'),
  n('daytona', 'GET /api/sandbox/:id/ports/3000/signed-preview-url?expiresInSeconds=:size'),
  n('daytona', 'POST /toolbox/:id/process/execute', (timeout) => ({ command: 'true', timeout })),
  n('daytona', 'POST /toolbox/:id/process/pty', (cols) => ({ id: `p${cols}`, cols, rows: 24 })),
  s('daytona', 'POST /api/sandbox', (name) => ({ name })),
  s('daytona', 'POST /api/sandbox', (text) => ({ labels: { k: text } })),
  s('daytona', 'POST /api/sandbox', (text) => ({ env: { A: text } })),
  s('daytona', 'POST /toolbox/:id/process/execute', (text) => ({ command: `: ${text}` })),
  s('daytona', 'POST /toolbox/:id/process/execute', (cwd) => ({ command: 'true', cwd })),
  s('daytona', 'POST /toolbox/:id/process/session', (sessionId) => ({ sessionId })),
  s('daytona', 'GET /toolbox/:id/files/info?path=:size'),
  s('daytona', 'GET /toolbox/:id/files/find?path=/tmp&pattern=:size'),
  s('daytona', 'GET /toolbox/:id/files/search?path=/tmp&pattern=:size'),
  n('vercel', 'POST /v3/sandboxes', (timeout) => ({ timeout })),
  n('vercel', 'POST /v3/sandboxes', (vcpus) => ({ resources: { vcpus } })),
  n('vercel', 'POST /v3/sandboxes', (memory) => ({ resources: { memory } })),
  n('vercel', 'POST /v3/sandboxes', (port) => ({ ports: [port] })),
  n('vercel', 'POST /v3/sandboxes', (snapshotExpiration) => ({ snapshotExpiration })),
  n('vercel', 'POST /v2/sandboxes/sessions/:id/extend-timeout', (duration) => ({ duration })),
  n('vercel', 'POST /v2/sandboxes/sessions/:id/cmd', (timeout) => ({ command: 'true', timeout })),
  n('vercel', 'GET /v2/sandboxes?limit=:size'),
  n('vercel', 'GET /v2/sandboxes/snapshots?limit=:size'),
  s('vercel', 'POST /v3/sandboxes', (name) => ({ name })),
  s('vercel', 'POST /v3/sandboxes', (text) => ({ tags: { k: text } })),
  s('vercel', 'POST /v3/sandboxes', (text) => ({ env: { A: text } })),
  s('vercel', 'POST /v2/sandboxes/sessions/:id/cmd', (text) => ({ command: 'true', args: [text] })),
  s('vercel', 'POST /v2/sandboxes/sessions/:id/cmd', (text) => ({ command: text })),
  s('vercel', 'POST /v2/sandboxes/sessions/:id/fs/mkdir', (path) => ({ path })),
  s('vercel', 'POST /v2/sandboxes/sessions/:id/fs/read', (path) => ({ path })),
  s('vercel', 'GET /v2/sandboxes?cursor=:size'),
  n('opensandbox', 'POST /v1/sandboxes', (timeout) => ({ image, timeout })),
  n('opensandbox', 'POST /v1/sandboxes', (cpu) => ({ image, resourceLimits: { cpu: String(cpu) } })),
  n('opensandbox', 'POST /v1/sandboxes', (memory) => ({ image, resourceLimits: { memory: `${memory}Mi` } })),
  n('opensandbox', 'POST /v1/sandboxes/:id/renew-expiration', (at) => ({ expiresAt: dateOf(at) })),
  n('opensandbox', 'GET /v1/sandboxes?page=:size'),
  n('opensandbox', 'GET /v1/sandboxes?pageSize=:size'),
  n('opensandbox', 'GET /v1/sandboxes/:id/endpoints/:size'),
  s('opensandbox', 'POST /v1/sandboxes', (text) => ({ image, metadata: { k: text } })),
  s('opensandbox', 'POST /v1/sandboxes', (text) => ({ image, env: { A: text } })),
  s('opensandbox', 'POST /v1/sandboxes', (uri) => ({ image: { uri } })),
  s('opensandbox', 'PATCH /v1/sandboxes/:id/metadata', (text) => ({ k: text })),
]

const image = { uri: 'host' }
const dateOf = (at: number) => {
  const date = new Date(at)
  return Number.isNaN(date.getTime()) ? String(at) : date.toISOString()
}

const numbers = [
  0,
  1,
  999,
  1000,
  1001,
  65_535,
  65_536,
  31_536_000,
  31_536_001,
  2 ** 31 - 1,
  2 ** 31,
  2 ** 53,
  1e21,
  -1,
]
const lengths = [0, 1, 199, 200, 201, 1000, 4095, 4096, 4097, 131_072, 1_048_577]

describe.skipIf(missing)(`sizes on fronts${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let daemon: TestDaemon
  const errors: string[] = []
  beforeAll(async () => {
    const listen = { listen: '127.0.0.1:0' }
    const quiet = () => {}
    const error = (facts: { err?: Error }, message: string) =>
      void errors.push(`${message} ${facts.err?.stack}`)
    daemon = await startTestDaemon(
      {
        isolator: 'oci',
        preview_listen: '127.0.0.1:0',
        max_body_mb: 2,
        quotas: { sessions: 100 },
        fronts: { daytona: listen, e2b: listen, opensandbox: listen, vercel: listen },
      },
      { log: { debug: quiet, info: quiet, warn: quiet, error } },
    )
  })
  afterAll(() => daemon?.stop())

  const keyHeader = (front: FrontName): Record<string, string> =>
    front === 'e2b'
      ? { 'x-api-key': daemon.key }
      : front === 'opensandbox'
        ? { 'open-sandbox-api-key': daemon.key }
        : { authorization: `Bearer ${daemon.key}` }

  const send = async (
    front: FrontName,
    request: string,
    body?: unknown,
    more: Record<string, string> = {},
  ) => {
    const [method, where] = request.split(' ') as [string, string]
    return fetch(`${daemon.daemon.fronts[front]}${where}`, {
      method,
      headers: { ...keyHeader(front), 'content-type': 'application/json', ...more },
      body: method === 'GET' ? undefined : JSON.stringify(body ?? {}),
      signal: AbortSignal.timeout(40_000),
    })
  }

  const sandboxes = new Map<FrontName, { id: string; headers: Record<string, string> }>()
  const sandboxOf = async (front: FrontName) => {
    const known = sandboxes.get(front)
    if (known && (await daemon.call('GET', `/v1/sessions/${known.id}`)).body.status === 'running')
      return known
    const create: Record<FrontName, [string, unknown]> = {
      e2b: ['POST /sandboxes', {}],
      daytona: ['POST /api/sandbox', {}],
      vercel: ['POST /v3/sandboxes', { name: `sizes-${Math.random()}` }],
      opensandbox: ['POST /v1/sandboxes', { image }],
    }
    const response = await send(front, ...create[front])
    // biome-ignore lint/suspicious/noExplicitAny: four vendors' shapes.
    const made = (await response.json()) as any
    expect(response.ok, JSON.stringify(made)).toBe(true)
    const id = made.sandboxID ?? made.session?.id ?? made.id
    const headers =
      front === 'e2b' ? { 'e2b-sandbox-id': id, 'x-access-token': made.envdAccessToken ?? '' } : ({} as never)
    sandboxes.set(front, { id, headers })
    return { id, headers }
  }
  const endOthers = async () => {
    const kept = new Set([...sandboxes.values()].map(({ id }) => id))
    const { sessions } = (await daemon.call('GET', '/v1/sessions?status=running,stopped,paused')).body
    for (const { id } of sessions) if (!kept.has(id)) await daemon.call('DELETE', `/v1/sessions/${id}`)
  }

  for (const front of ['e2b', 'daytona', 'vercel', 'opensandbox'] as const)
    it(`${front}: answers every number and length without a fault`, { timeout: 240_000 }, async () => {
      const faults: string[] = []
      const statuses = new Set<number>()
      for (const { request, body, kind } of rows.filter((row) => row.front === front)) {
        for (const size of kind === 'n' ? numbers : lengths) {
          const { id, headers } = await sandboxOf(front)
          const text = kind === 'n' ? String(size) : 'a'.repeat(size)
          const where = request.replace(':id', id).replace(':size', text)
          // Longer heads are rejected as a whole; that is tested once, below.
          if (where.length > 16_000) continue
          const plane = request.includes('.') || request.includes('/files') ? headers : {}
          const value = kind === 'n' ? size : text
          const response = await send(front, where, body?.(value as never), plane)
          await response.body?.cancel()
          statuses.add(response.status)
          if (response.status >= 500 && response.status !== 501)
            faults.push(`${response.status} ${request} ${String(body).slice(0, 60)} ${size}`)
        }
        await endOthers()
      }
      expect(faults).toEqual([])
      expect(errors).toEqual([])
      expect([...statuses].some((status) => status < 300)).toBe(true)
      expect([...statuses].some((status) => status >= 400)).toBe(true)
    })

  it.each([0, 1, 2, 1000, 2_097_152, 2_097_153, 2 ** 31, 2 ** 32 - 1])(
    'e2b: a Connect message that claims %i bytes',
    async (size) => {
      const { id, headers } = await sandboxOf('e2b')
      const envelope = Buffer.concat([Buffer.from([0, 0, 0, 0, 0]), Buffer.from('{}')])
      envelope.writeUInt32BE(size, 1)
      const response = await fetch(`${daemon.daemon.fronts.e2b}/process.Process/Start`, {
        method: 'POST',
        headers: { ...keyHeader('e2b'), ...headers, 'content-type': 'application/connect+json' },
        body: envelope,
        signal: AbortSignal.timeout(40_000),
      })
      const text = await response.text()
      expect(response.status, id).toBeLessThan(500)
      expect(text).not.toContain('"internal"')
    },
  )

  it.each(['0', '1', '-1', '1e9', String(2 ** 31), String(2 ** 53), '9'.repeat(30)])(
    'e2b: Connect-Timeout-Ms and Keepalive-Ping-Interval of %s',
    async (value) => {
      const { headers } = await sandboxOf('e2b')
      for (const name of ['connect-timeout-ms', 'keepalive-ping-interval']) {
        const response = await send('e2b', 'POST /process.Process/List', {}, { ...headers, [name]: value })
        await response.text()
        expect(response.status).toBeLessThan(500)
      }
    },
  )

  it.each(['e2b', 'daytona', 'vercel', 'opensandbox'] as const)(
    '%s: heads, lengths and depths beyond every limit',
    async (front) => {
      const { hostname, port } = new URL(daemon.daemon.fronts[front]!)
      const status = (text: string) =>
        new Promise<number>((resolve, reject) => {
          const socket = connect(Number(port), hostname)
          const timer = setTimeout(() => reject(new Error(`no answer to ${text.slice(0, 100)}`)), 40_000)
          let answer = ''
          socket.on('data', (chunk) => {
            answer += chunk
          })
          socket.on('error', () => {})
          socket.on('close', () => {
            clearTimeout(timer)
            resolve(Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? 0))
          })
          socket.end(text)
        })
      const path = {
        e2b: '/sandboxes',
        daytona: '/api/sandbox',
        vercel: '/v3/sandboxes',
        opensandbox: '/v1/sandboxes',
      }
      const head = [`POST ${path[front]} HTTP/1.1`, 'host: x', 'connection: close']
      const [[name, key]] = Object.entries(keyHeader(front)) as [[string, string]]
      const request = (lines: string[], body = '') =>
        `${[...head, `${name}: ${key}`, 'content-type: application/json', ...lines].join('\r\n')}\r\n\r\n${body}`
      for (const length of ['-1', '2097153', String(2 ** 31), String(2 ** 53), '9'.repeat(40)])
        expect(await status(request([`content-length: ${length}`], '{')), length).toBeLessThan(500)
      for (const depth of [100, 10_000, 900_000]) {
        const body = '['.repeat(depth) + ']'.repeat(depth)
        expect(await status(request([`content-length: ${body.length}`], body)), `${depth}`).toBeLessThan(500)
      }
      expect(await status(request([`x-long: ${'a'.repeat(40_000)}`]))).toBeLessThan(500)
    },
  )
})
