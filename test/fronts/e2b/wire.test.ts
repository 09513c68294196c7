import { E2B, type Sandbox } from 'e2b'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../../packages/daemon/src/testing/isolator.ts'

const missing = await isolationMissing()

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
type Anything = any

/** Requests that E2B's SDK does not make, or not in case of errors. */
describe.skipIf(missing)(`E2B’s wire${missing ? ` (skipped: ${missing})` : ''}`, () => {
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

  const ask = async (where: string): Promise<{ status: number; body: Anything }> => {
    const response = await fetch(`${url}${where}`, { headers: { 'x-api-key': daemon.key } })
    return { status: response.status, body: await response.json() }
  }
  const begin = (
    method: string,
    message: object,
    headers: Record<string, string> = {},
    own: Sandbox = box,
  ) => {
    const json = Buffer.from(JSON.stringify(message))
    const head = Buffer.alloc(5)
    head.writeUInt32BE(json.length, 1)
    const { envdAccessToken } = own as unknown as { envdAccessToken: string }
    return fetch(`${url}/${method}`, {
      method: 'POST',
      body: new Uint8Array(Buffer.concat([head, json])),
      headers: {
        'content-type': 'application/connect+json',
        'e2b-sandbox-id': own.sandboxId,
        'x-access-token': envdAccessToken,
        ...headers,
      },
    })
  }
  const framesOf = async (response: Response) => {
    const bytes = Buffer.from(await response.arrayBuffer())
    const frames: Anything[] = []
    for (let at = 0; at < bytes.length; at += 5 + bytes.readUInt32BE(at + 1))
      frames.push(JSON.parse(bytes.toString('utf8', at + 5, at + 5 + bytes.readUInt32BE(at + 1))))
    return frames
  }
  const call = async (...args: Parameters<typeof begin>) => framesOf(await begin(...args))

  it('a terminal with more output than is kept can be rejoined with the rest', async () => {
    const pty = await box.pty.create({ cols: 80, rows: 24, onData: () => {}, timeoutMs: 0 })
    await pty.disconnect()
    const line = 'head -c 20000000 /dev/zero | tr "\\0" x; touch said; echo; echo the-end-$((40+2))\n'
    await box.pty.sendInput(pty.pid, new TextEncoder().encode(line))
    await expect.poll(() => box.files.exists('said'), { timeout: 30_000 }).toBe(true)
    let [seen, last] = [0, '']
    const again = await box.pty.connect(pty.pid, {
      timeoutMs: 0,
      onData: (data) => {
        seen += data.length
        last = (last + Buffer.from(data)).slice(-200)
      },
    })
    await expect.poll(() => last, { timeout: 30_000 }).toContain('the-end-42')
    expect(seen).toBeLessThan(20_000_000)
    await again.kill()
  })

  it('a terminal whose sandbox ends reports an error', async () => {
    const own = await e2b.Sandbox.create()
    const message = { process: { cmd: 'sleep', args: ['1000000'] }, pty: { size: { cols: 80, rows: 24 } } }
    const answer = await begin('process.Process/Start', message, {}, own)
    await own.kill()
    expect((await framesOf(answer)).at(-1).error?.code).toBe('unavailable')
  })

  it('treats times beyond the range of timers as long ones', async () => {
    const process = { cmd: 'sleep', args: ['0.5'] }
    const frames = await call(
      'process.Process/Start',
      { process },
      { 'keepalive-ping-interval': '99999999', 'connect-timeout-ms': '9999999999' },
    )
    const kinds = frames.map(({ event = {} }) => Object.keys(event)[0] ?? 'last')
    expect(kinds).toEqual(['start', 'end', 'last'])
    const running = await box.commands.run('sleep 0.5', { background: true, timeoutMs: 0 })
    const joined = await call(
      'process.Process/Connect',
      { process: { pid: running.pid } },
      { 'connect-timeout-ms': '9999999999' },
    )
    expect(joined.at(-1)).toEqual({})
    await running.wait()
  })

  it('a file is never rendered as a page of ours in a browser', async () => {
    await box.files.write('page.html', '<script>alert(1)</script>')
    const { headers } = await fetch(await box.downloadUrl('page.html'))
    expect(headers.get('content-disposition')).toMatch(/^attachment;/)
    expect(headers.get('content-security-policy')).toBe('sandbox')
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    const { envdAccessToken } = box as unknown as { envdAccessToken: string }
    const twice = await fetch(`${url}/files?path=a&path=b`, {
      headers: { 'e2b-sandbox-id': box.sandboxId, 'x-access-token': envdAccessToken },
    })
    expect(twice.status).toBe(400)
  })

  it('metrics of several sandboxes skip missing ones, and are limited in number', async () => {
    const { body } = await ask(`/sandboxes/metrics?sandbox_ids=${box.sandboxId},aaaaaaaaaaaaaaaa`)
    expect(Object.keys(body.sandboxes)).toEqual([box.sandboxId])
    const many = Array.from({ length: 101 }, (_, at) => `id${at}`).join(',')
    expect((await ask(`/sandboxes/metrics?sandbox_ids=${many}`)).status).toBe(400)
    const now = Math.floor(Date.now() / 1000)
    const metrics = (query: string) => ask(`/sandboxes/${box.sandboxId}/metrics?${query}`)
    expect((await metrics(`start=${now - 60}&end=${now}`)).body).toHaveLength(1)
    expect((await metrics(`end=${now - 3600}`)).body).toEqual([])
    expect((await metrics(`start=${now + 3600}`)).body).toEqual([])
  })

  it('lists a project with very many sandboxes completely, and finds the oldest snapshot by its name', async () => {
    const { sessions } = daemon.daemon
    const project = { projectId: 'default', keyId: 'test', scopes: [], requestId: 'test' }
    const own = await sessions.get(project, box.sandboxId)
    const snapshot = await box.createSnapshot({ name: 'oldest' })
    const row = await sessions.snapshots.get(project, snapshot.snapshotId)
    /** Like the store: newest first, in pages. */
    const pages =
      <T extends { created_at: number; id: string }>(all: T[]) =>
      async (_: unknown, { limit, after }: { limit: number; after?: { createdAt: number } }) =>
        all.filter(({ created_at }) => created_at < (after?.createdAt ?? Infinity)).slice(0, limit)
    const many = <T extends object>(one: T, name: object) =>
      Array.from({ length: 1500 }, (_, at) => ({ ...one, ...name, id: `fake${at}`, created_at: 5000 - at }))
    const spies = [
      vi.spyOn(sessions, 'list').mockImplementation(pages(many(own, {}))),
      vi
        .spyOn(sessions.snapshots, 'list')
        .mockImplementation(pages([...many(row, { name: 'new' }), { ...row, created_at: 1 }])),
    ]
    try {
      expect((await ask('/sandboxes')).body).toHaveLength(1500)
      const copy = await e2b.Sandbox.create('oldest')
      await copy.kill()
    } finally {
      for (const spy of spies) spy.mockRestore()
    }
  })

  it('logs can be read from a time on, backwards, in pages, and searched', async () => {
    const own = await e2b.Sandbox.create()
    await own.pause()
    await own.connect()
    const logs = async (query = ''): Promise<Anything[]> =>
      (await ask(`/v2/sandboxes/${own.sandboxId}/logs?${query}`)).body.logs
    await expect.poll(async () => (await logs()).length).toBeGreaterThanOrEqual(3)
    const whole = await logs()
    expect(await logs('limit=2')).toEqual(whole.slice(0, 2))
    expect(await logs('direction=backward&limit=2')).toEqual(whole.slice(-2).reverse())
    const middle = Date.parse(whole[1].timestamp)
    expect(await logs(`cursor=${middle}`)).toEqual(
      whole.filter(({ timestamp }) => Date.parse(timestamp) >= middle),
    )
    expect(await logs(`cursor=${middle}&direction=backward`)).toEqual(
      whole.filter(({ timestamp }) => Date.parse(timestamp) <= middle).reverse(),
    )
    expect((await logs('search=paused')).map(({ message }) => message)).toEqual(['session.paused'])
    expect(await logs('level=error')).toEqual([])
    expect((await ask(`/v2/sandboxes/${own.sandboxId}/logs?direction=up`)).status).toBe(400)
    await own.kill()
  })
})
