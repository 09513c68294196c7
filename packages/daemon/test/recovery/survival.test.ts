import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { postgresMissing, startPostgres } from '../../../database/src/testing/postgres.ts'
import { all, eventsOf, startTestDaemon } from '../../src/testing/daemon.ts'
import { type SpawnedDaemon, spawnDaemon } from '../../src/testing/spawn-daemon.ts'

const key = 'sk-test-0123456789abcdef'
const cleanUps: Array<() => Promise<unknown>> = []
afterEach(async () => {
  while (cleanUps.length > 0) await cleanUps.pop()!()
})

async function place(extra: Record<string, unknown> = {}) {
  const folder = await mkdtemp(path.join(tmpdir(), 'sk-survival-'))
  cleanUps.push(() => rm(folder, { recursive: true, force: true }))
  return {
    listen: '127.0.0.1:0',
    data_dir: folder,
    isolator: 'process',
    api_key: key,
    log_level: 'silent',
    ...extra,
  }
}

function client(daemon: SpawnedDaemon) {
  const request = (method: string, where: string, body?: unknown, accept = 'application/json') =>
    fetch(`${daemon.url}${where}`, {
      method,
      headers: { authorization: `Bearer ${key}`, accept },
      body: JSON.stringify(body),
    })
  return {
    request,
    // biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
    json: async (method: string, where: string, body?: unknown): Promise<any> =>
      (await request(method, where, body)).json(),
  }
}

describe('a killed daemon', () => {
  it('loses no session, no file and no command with an id', async () => {
    const config = await place()
    const first = await spawnDaemon(config)
    const before = client(first)
    const { id } = await before.json('POST', '/v1/sessions', { name: 'n' })
    const base = `/v1/sessions/${id}`
    await before.json('POST', `${base}/fs/write`, { path: 'f', content: 'kept' })
    const script = 'echo before; while [ ! -e go ]; do sleep 0.05; done; echo after'
    const run = { cmd: 'sh', args: ['-c', script], exec_id: 'long' }
    const events = eventsOf(await before.request('POST', `${base}/run`, run, 'text/event-stream'))
    await events.next()
    expect((await events.next()).value.data.text).toBe('before\n')
    await before.json('POST', `${base}/exec`, { cmd: 'true', exec_id: 'shell-done' })
    expect(await first.end('SIGKILL')).toEqual({ code: null, signal: 'SIGKILL' })
    await expect(all(events)).rejects.toThrow()

    const second = await spawnDaemon(config)
    cleanUps.push(() => second.end('SIGTERM'))
    const after = client(second)
    expect(await after.json('GET', base)).toMatchObject({ status: 'running', name: 'n', incarnation: 1 })
    expect((await after.json('POST', `${base}/exec`, { cmd: 'cat f' })).output).toBe('kept')
    expect((await after.json('GET', `${base}/execs/long`)).status).toBe('running')
    const rest = eventsOf(await after.request('GET', `${base}/execs/long/output?after=1`))
    await after.json('POST', `${base}/fs/write`, { path: 'go', content: '' })
    expect((await all(rest)).map(({ event, data }) => [event, data.text ?? data.exit_code])).toEqual([
      ['stdout', 'after\n'],
      ['exit', 0],
    ])
    // Repeating the interrupted request returns the result of the first command.
    expect(await after.json('POST', `${base}/run`, run)).toMatchObject({
      exec_id: 'long',
      stdout: 'before\nafter\n',
    })
    expect((await after.json('GET', `${base}/execs/shell-done`)).result.exit_code).toBe(0)
    await after.json('DELETE', base)
  })
})

describe('a stopped daemon', () => {
  it('closes streams and stops quickly while commands run', async () => {
    const config = await place()
    const daemon = await spawnDaemon(config)
    const { json, request } = client(daemon)
    const { id } = await json('POST', '/v1/sessions', {})
    const base = `/v1/sessions/${id}`
    const events = await request('GET', '/v1/events')
    const body = { cmd: 'sleep', args: ['600'], exec_id: 'sleeper' }
    const running = eventsOf(await request('POST', `${base}/run`, body, 'text/event-stream'))
    await running.next()
    const plain = request('POST', `${base}/exec`, { cmd: 'sleep 600' }).catch(() => 'cut')
    const inShell = { cmd: 'sleep 600', shell: 'other', exec_id: 'in-shell' }
    const tracked = request('POST', `${base}/exec`, inShell).catch(() => 'cut')
    await expect.poll(async () => (await json('GET', `${base}/shells`)).shells.length).toBe(2)
    const startedAt = performance.now()
    expect(await daemon.end('SIGTERM')).toEqual({ code: 0, signal: null })
    // Not a measurement: a daemon that waits for its streams or commands would wait for ten minutes.
    expect(performance.now() - startedAt).toBeLessThan(20_000)
    expect(await all(running)).toEqual([])
    await events.text()
    await Promise.all([plain, tracked])
    const next = await spawnDaemon(config)
    cleanUps.push(() => next.end('SIGTERM'))
    const after = client(next)
    expect((await after.json('GET', `${base}/execs/sleeper`)).status).toBe('running')
    // Without isolation a shell ends with its daemon. The command fails with `interrupted` and is not run twice.
    expect(await after.json('POST', `${base}/exec`, inShell)).toMatchObject({ code: 'interrupted' })
    await after.json('DELETE', base)
  })
})

const noPostgres = await postgresMissing()
describe.skipIf(noPostgres)(`on Postgres${noPostgres ? ` (skipped: ${noPostgres})` : ''}`, () => {
  it('reports a lost database, and recovers by itself', async () => {
    const postgres = await startPostgres()
    cleanUps.push(() => postgres.stop())
    const db_url = await postgres.database('d')
    const daemon = await startTestDaemon({ db_url })
    cleanUps.push(() => daemon.stop())
    const id = await daemon.session({ labels: { a: 'b' } })
    const base = `/v1/sessions/${id}`
    const neighbour = await startTestDaemon({ db_url })
    try {
      expect((await neighbour.call('GET', base)).body.status).toBe('running')
      expect((await neighbour.call('POST', `${base}/run`, { cmd: 'true' })).body).toMatchObject({
        code: 'conflict',
      })
      await neighbour.daemon.sessions.reconciler.run()
      // The daemons do not notify each other of new events.
      const stream = eventsOf(await neighbour.fetch(`${base}/events`))
      expect((await stream.next()).value.event).toBe('session.running')
      await daemon.call('POST', `${base}/stop`)
      expect((await stream.next()).value.event).toBe('session.stopped')
      await stream.return(undefined)
      await daemon.call('POST', `${base}/start`)
    } finally {
      await neighbour.stop()
    }
    expect((await daemon.call('GET', base)).body.status).toBe('running')
    expect((await daemon.call('GET', '/v1/sessions?label=a=b')).body.sessions).toHaveLength(1)
    const run = {
      cmd: 'sh',
      args: ['-c', 'while [ ! -e go ]; do sleep 0.05; done; echo out'],
      exec_id: 'e',
      detach: true,
    }
    expect((await daemon.call('POST', `${base}/run`, run)).status).toBe(202)
    await postgres.kill()
    const away = await daemon.call('POST', `${base}/run`, { cmd: 'true' })
    expect(away.body).toMatchObject({ code: 'unavailable', status: 503, retryable: true })
    expect(away.headers.get('retry-after')).toBe('1')
    expect((await daemon.call('GET', '/readyz')).status).toBe(503)
    expect((await daemon.call('GET', '/healthz')).status).toBe(200)
    // The command ends while the database is away.
    const { provider } = daemon.context
    const [sandbox] = await provider.list()
    await (await provider.get(sandbox!.sandboxId)).writeFile('go', '')
    // `SANDKASTEN_AWAY_MS=60000` for a long run.
    const awayUntil = performance.now() + Number(process.env.SANDKASTEN_AWAY_MS ?? 1_000)
    while (performance.now() < awayUntil) {
      const answers = await Promise.all([
        daemon.call('POST', '/v1/sessions', {}),
        daemon.call('GET', base),
        daemon.call('POST', `${base}/exec`, { cmd: 'true' }),
        daemon.call('GET', '/v1/events?limit=1'),
      ])
      for (const { status, body } of answers)
        expect({ status, code: body.code }).toEqual({ status: 503, code: 'unavailable' })
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    await postgres.start()
    await expect.poll(async () => (await daemon.call('GET', '/readyz')).status, { timeout: 30_000 }).toBe(200)
    const ended = await daemon.call('GET', `${base}/execs/e?wait_ms=30000`)
    expect(ended.body).toMatchObject({ status: 'done', result: { exit_code: 0, stdout: 'out\n' } })
    expect((await daemon.call('POST', `${base}/run`, { cmd: 'true' })).body.exit_code).toBe(0)
    // Refused creates have left nothing behind.
    await daemon.daemon.sessions.reconciler.run()
    expect((await daemon.call('GET', '/v1/sessions')).body.sessions).toMatchObject([
      { id, status: 'running' },
    ])
    expect(await provider.list()).toHaveLength(1)
  })
})
