import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { WebSocket } from 'ws'
import { all, eventsOf, startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'

const missing = await isolationMissing()

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
type Anything = any
type FrontName = 'daytona' | 'e2b' | 'opensandbox' | 'vercel'

describe.skipIf(missing)(`fronts${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let daemon: TestDaemon
  beforeAll(async () => {
    const listen = { listen: '127.0.0.1:0' }
    daemon = await startTestDaemon({
      isolator: 'oci',
      preview_listen: '127.0.0.1:0',
      fronts: { daytona: listen, e2b: listen, opensandbox: listen, vercel: listen },
    })
  })
  afterAll(() => daemon?.stop())
  afterEach(() => vi.restoreAllMocks())

  const front = (name: FrontName) => daemon.daemon.fronts[name]!
  const keys: Record<FrontName, string> = {
    daytona: 'authorization',
    e2b: 'x-api-key',
    opensandbox: 'open-sandbox-api-key',
    vercel: 'authorization',
  }
  const send = (name: FrontName, method: string, where: string, body?: unknown, init: RequestInit = {}) =>
    fetch(`${front(name)}${where}`, {
      method,
      body: JSON.stringify(body),
      ...init,
      headers: {
        [keys[name]]: keys[name] === 'authorization' ? `Bearer ${daemon.key}` : daemon.key,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...init.headers,
      },
    })
  const ask = async (...args: Parameters<typeof send>): Promise<Anything> => {
    const response = await send(...args)
    const text = await response.text()
    if (!response.ok) throw new Error(`${args[1]} ${args[2]}: ${response.status} ${text}`)
    return text === '' ? undefined : JSON.parse(text)
  }
  /** The head of the response to a request whose body never comes. */
  const headOf = (name: FrontName, method: string, where: string, headers: string[] = []) =>
    new Promise<string>((resolve, reject) => {
      const { hostname, port } = new URL(front(name))
      const socket = connect(Number(port), hostname)
      const lines = [`${method} ${where} HTTP/1.1`, 'host: x', 'content-length: 20000000', ...headers]
      socket.write(`${lines.join('\r\n')}\r\n\r\n`)
      let text = ''
      socket.setEncoding('utf8').on('data', (chunk) => {
        text += chunk
        if (!text.includes('\r\n\r\n')) return
        resolve(text.slice(0, text.indexOf('\r\n\r\n')))
        socket.destroy()
      })
      socket.on('error', reject)
    })
  const live = async () => (await daemon.call('GET', '/v1/sessions?limit=100')).body.sessions.filter(isLive)
  const isLive = ({ status }: Anything) => !['destroyed', 'failed', 'expired'].includes(status)

  const sandbox = 'e2b-sandbox-id: aaaaaaaaaaaaaaaa'
  it.each<[FrontName, string, string, number, string[]?]>([
    ['daytona', 'POST', '/api/sandbox', 401],
    ['daytona', 'POST', '/nowhere', 404],
    ['e2b', 'POST', '/sandboxes', 401],
    ['e2b', 'POST', '/v3/templates', 401],
    ['e2b', 'POST', '/files?path=x', 401, [sandbox]],
    ['e2b', 'POST', '/files?path=x&signature=v1_x', 401, [sandbox]],
    ['e2b', 'POST', '/process.Process/Start', 401, [sandbox]],
    ['e2b', 'POST', '/process.Process/SendInput', 401, [sandbox]],
    ['e2b', 'POST', '/nowhere', 404],
    ['opensandbox', 'POST', '/v1/sandboxes', 401],
    ['opensandbox', 'POST', '/nowhere', 404],
    ['vercel', 'POST', '/v3/sandboxes', 401],
    ['vercel', 'POST', '/nowhere', 404],
  ])(
    '%s answers %s %s of an unauthenticated client before it reads the body',
    async (name, method, where, status, more) => {
      const head = await headOf(name, method, where, more)
      expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
      expect(head.toLowerCase()).toContain('\r\nconnection: close')
    },
  )

  it.each<[FrontName, string]>([
    ['daytona', '/api/sandbox'],
    ['e2b', '/v2/sandboxes'],
    ['opensandbox', '/v1/sandboxes'],
    ['vercel', '/v2/sandboxes'],
  ])('%s marks its responses as private', async (name, where) => {
    for (const path of [where, '/nowhere']) {
      const { headers } = await send(name, 'GET', path)
      expect(headers.get('cache-control')).toBe('no-store')
      expect(headers.get('x-content-type-options')).toBe('nosniff')
      expect(headers.get('x-request-id')).toBeTruthy()
    }
  })

  it('the audit log records changes with their target, also by GET', async () => {
    const { id: open } = await ask('opensandbox', 'POST', '/v1/sandboxes', { image: { uri: 'host' } })
    await ask('opensandbox', 'GET', `/v1/sandboxes/${open}`)
    await ask('opensandbox', 'GET', `/v1/sandboxes/${open}/endpoints/8000`)
    const { session } = await ask('vercel', 'POST', '/v3/sandboxes', { name: 'audited' })
    await ask('vercel', 'POST', `/v2/sandboxes/sessions/${session.id}/fs/mkdir`, { path: '/tmp/a' })
    await ask('vercel', 'POST', `/v2/sandboxes/sessions/${session.id}/stop`, {})
    await ask('vercel', 'GET', '/v2/sandboxes/audited')
    await ask('vercel', 'GET', '/v2/sandboxes/audited?resume=true')
    const { id: day } = await ask('daytona', 'POST', '/api/sandbox', {})
    await ask('daytona', 'GET', `/api/sandbox/${day}/ports/3000/preview-url`)
    const made = await ask('e2b', 'POST', '/sandboxes', {})
    await ask('e2b', 'POST', '/files?path=a', undefined, {
      body: 'text',
      headers: { 'e2b-sandbox-id': made.sandboxID, 'x-access-token': made.envdAccessToken },
    })
    const terminal = new WebSocket(
      `${front('daytona').replace('http', 'ws')}/toolbox/${day}/process/pty/create-connect?id=t`,
      { headers: { authorization: `Bearer ${daemon.key}` } },
    )
    await once(terminal, 'open')
    terminal.terminate()
    const expected = [
      ['daytona GET /toolbox/:id/process/pty/create-connect', day],
      ['opensandbox GET /v1/sandboxes/:id/endpoints/:port', open],
      ['vercel POST /v2/sandboxes/sessions/:sid/fs/mkdir', session.id],
      ['vercel GET /v2/sandboxes/:name', 'audited'],
      ['daytona GET /api/sandbox/:id/ports/:port/preview-url', day],
      ['e2b POST /files', made.sandboxID],
    ]
    const entries = async () =>
      (await daemon.call('GET', '/v1/audit?limit=100')).body.entries.map((entry: Anything) => [
        entry.action,
        entry.target,
      ])
    for (const entry of expected) await expect.poll(entries).toContainEqual(entry)
    const actions: string[] = (await entries()).map(([action]: [string]) => action)
    expect(actions).not.toContain('opensandbox GET /v1/sandboxes/:id')
    expect(actions.filter((action) => action === 'vercel GET /v2/sandboxes/:name')).toHaveLength(1)
    for (const one of await live()) await daemon.call('DELETE', `/v1/sessions/${one.id}`)
  })

  it('a copy that cannot be finished is a failure, and nothing of it is left', async () => {
    const { sandboxID: id } = await ask('e2b', 'POST', '/sandboxes', {})
    const { sessions } = daemon.daemon
    vi.spyOn(sessions, 'setLifetime').mockRejectedValueOnce(new Error('no'))
    const copies = await ask('e2b', 'POST', `/sandboxes/${id}/fork`, { count: 2 })
    expect(copies.flatMap((copy: Anything) => Object.keys(copy)).sort()).toEqual(['error', 'sandbox'])
    expect(await live()).toHaveLength(2)
    for (const one of await live()) await daemon.call('DELETE', `/v1/sessions/${one.id}`)
  })

  it.each<[FrontName, string, object]>([
    ['daytona', '/api/sandbox', {}],
    ['e2b', '/sandboxes', {}],
    ['opensandbox', '/v1/sandboxes', { image: { uri: 'host' } }],
    ['vercel', '/v3/sandboxes', {}],
  ])('%s leaves nothing of a sandbox that it cannot remember', async (name, where, body) => {
    const { fronts } = daemon.context.store
    const put = vi.fn(() => Promise.reject(new Error('no')))
    const before = fronts.put
    Object.assign(fronts, { put })
    try {
      expect((await send(name, 'POST', where, body)).status).toBeGreaterThanOrEqual(400)
    } finally {
      Object.assign(fronts, { put: before })
    }
    expect(put).toHaveBeenCalled()
    expect(await live()).toEqual([])
  })

  it('streams that are cut by a shutdown do not look complete', async () => {
    const { sandboxID: id, envdAccessToken } = await ask('e2b', 'POST', '/sandboxes', {})
    const access = { 'e2b-sandbox-id': id, 'x-access-token': envdAccessToken }
    const begin = (method: string, message: object) =>
      send('e2b', 'POST', `/${method}`, undefined, {
        body: new Uint8Array(frame(message)),
        headers: { ...access, 'content-type': 'application/connect+json' },
      })
    const sleeping = { cmd: 'sleep', args: ['1000000'] }
    const streams = [
      await begin('process.Process/Start', { process: sleeping }),
      await begin('process.Process/Start', { process: sleeping, pty: { size: { cols: 80, rows: 24 } } }),
      await begin('filesystem.Filesystem/WatchDir', { path: '/tmp' }),
    ]
    const { session } = await ask('vercel', 'POST', '/v3/sandboxes', {})
    const lines = await send('vercel', 'POST', `/v2/sandboxes/sessions/${session.id}/cmd`, {
      command: 'sleep',
      args: ['1000000'],
      wait: true,
    })
    const { id: open } = await ask('opensandbox', 'POST', '/v1/sandboxes', { image: { uri: 'host' } })
    const run = async (path: string, body: object) => {
      const response = await send('opensandbox', 'POST', `/sandboxes/${open}/port/44772${path}`, body)
      const events = all(eventsOf(response)) as Promise<Anything[]>
      events.catch(() => {})
      return events
    }
    const command = run('/command', { command: 'sleep 1000000' })
    const shell = run('/code', { code: 'sleep 1000000', context: { language: 'bash' } })
    const read = streams.map(framesOf)
    const cut = lines.text().then(
      () => 'whole',
      () => 'cut',
    )
    const { commands } = daemon.daemon.sessions
    const project = { projectId: 'default', keyId: 'test', scopes: [], requestId: 'test' }
    await expect.poll(async () => (await commands.list(project, open, 10)).length).toBe(2)
    await daemon.restart()
    for (const frames of read) {
      const last = (await frames).at(-1)!
      expect([last.flags, last.message.error?.code]).toEqual([2, 'unavailable'])
    }
    expect(await cut).toBe('cut')
    for (const events of [await command, await shell])
      expect(events.at(-1)).toMatchObject({ event: 'error', data: { error: { evalue: 'unavailable' } } })
  })
})

function frame(message: object): Buffer {
  const json = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(json.length, 1)
  return Buffer.concat([head, json])
}

async function framesOf(response: Response): Promise<Array<{ flags: number; message: Anything }>> {
  const bytes = Buffer.from(await response.arrayBuffer())
  const frames: Array<{ flags: number; message: Anything }> = []
  for (let at = 0; at < bytes.length; ) {
    const length = bytes.readUInt32BE(at + 1)
    frames.push({ flags: bytes[at]!, message: JSON.parse(bytes.toString('utf8', at + 5, at + 5 + length)) })
    at += 5 + length
  }
  return frames
}
