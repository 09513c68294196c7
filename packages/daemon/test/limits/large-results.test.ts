import { readFileSync } from 'node:fs'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { postgresMissing, startPostgres, type TestPostgres } from '../../../database/src/testing/postgres.ts'
import { type SpawnedDaemon, spawnDaemon } from '../../src/testing/spawn-daemon.ts'

/** Measures the memory of a real daemon process with the largest possible results. */
const key = 'sk-test-0123456789abcdef'
const missing = await postgresMissing()
let postgres: TestPostgres | undefined
beforeAll(async () => {
  if (!missing) postgres = await startPostgres()
})
afterAll(() => postgres?.stop())

const cleanUps: Array<() => unknown> = []
afterEach(async () => {
  while (cleanUps.length > 0) await cleanUps.pop()!()
})

const script = 'head -c 67108864 /dev/zero; head -c 67108864 /dev/zero >&2'
const both = { cmd: 'sh', args: ['-c', script], max_output_bytes: 67_108_864 }

describe.each([
  ['SQLite', undefined],
  [`Postgres${missing ? ` (skipped: ${missing})` : ''}`, missing],
])('%s', (store, skipped) => {
  async function begin(settings: Record<string, unknown> = {}) {
    const folder = await mkdtemp(path.join(tmpdir(), 'sk-large-'))
    cleanUps.push(() => rm(folder, { recursive: true, force: true }))
    const database = store === 'SQLite' ? {} : { db_url: await postgres!.database(`large${Date.now()}`) }
    const config = {
      listen: '127.0.0.1:0',
      data_dir: folder,
      isolator: 'process',
      api_key: key,
      log_level: 'error',
    }
    const daemon = await spawnDaemon({ ...config, ...database, ...settings })
    cleanUps.push(() => daemon.end('SIGTERM'))
    const call = callerOf(daemon)
    const { body } = await call('POST', '/v1/sessions', {})
    cleanUps.push(() => call('DELETE', `/v1/sessions/${body.id}`))
    return { folder, daemon, call, base: `/v1/sessions/${body.id}` }
  }

  if (store === 'SQLite')
    it.each([
      ['with an id', { exec_id: 'nul' }],
      ['without an id', {}],
    ])(
      '64 MiB of NUL on both streams, %s: the result is cut, and the daemon goes on',
      async (_, id) => {
        const { daemon, call, base } = await begin()
        const { status, body, bytes } = await call('POST', `${base}/run`, { ...both, ...id })
        expect(status).toBe(200)
        expect(body).toMatchObject({ exit_code: 0, truncated: true })
        expect(body.stdout.length).toBeGreaterThan(300_000)
        expect(bytes).toBeLessThan(4.1 * 2 ** 20)
        expect((await call('GET', '/v1/sessions')).status).toBe(200)
        expect(daemon.process.exitCode).toBeNull()
      },
      120_000,
    )

  it.skipIf(skipped)(
    'a shell command of that size is cut too',
    async () => {
      const { call, base } = await begin()
      const { status, body, bytes } = await call('POST', `${base}/exec`, {
        cmd: 'head -c 67108864 /dev/zero',
        exec_id: 'nul',
        max_output_bytes: 67_108_864,
      })
      expect(status).toBe(200)
      expect(body).toMatchObject({ exit_code: 0, truncated: true })
      expect(bytes).toBeLessThan(4.1 * 2 ** 20)
    },
    120_000,
  )

  it.skipIf(skipped)(
    'twelve at once stay within the memory of their project',
    async () => {
      const { folder, daemon, call, base } = await begin()
      const before = rssMb(daemon)
      let most = 0
      const watch = setInterval(() => {
        most = Math.max(most, rssMb(daemon))
      }, 50)
      const answers = await Promise.all(
        Array.from({ length: 12 }, (_, at) => call('POST', `${base}/run`, { ...both, exec_id: `r${at}` })),
      )
      clearInterval(watch)
      for (const { status, body } of answers) {
        expect(status).toBe(200)
        expect(body).toMatchObject({ exit_code: 0, truncated: true })
      }
      // 4.9 GB before results were limited.
      expect(most - before).toBeLessThan(1000)
      if (store !== 'SQLite') return
      const { size } = await stat(path.join(folder, 'sandkasten.db'))
      expect(size).toBeLessThan(300 * 2 ** 20)
    },
    240_000,
  )
})

describe('clients that do not read', () => {
  async function begin(settings: Record<string, unknown> = {}) {
    const folder = await mkdtemp(path.join(tmpdir(), 'sk-slow-'))
    cleanUps.push(() => rm(folder, { recursive: true, force: true }))
    const config = { listen: '127.0.0.1:0', data_dir: folder, isolator: 'process', api_key: key }
    const daemon = await spawnDaemon({ ...config, log_level: 'error', ...settings })
    cleanUps.push(() => daemon.end('SIGTERM'))
    const call = callerOf(daemon)
    const { body } = await call('POST', '/v1/sessions', {})
    cleanUps.push(() => call('DELETE', `/v1/sessions/${body.id}`))
    return { daemon, call, base: `/v1/sessions/${body.id}` }
  }

  /** Sends a request and does not read its response. */
  function unread({ url }: SpawnedDaemon, method: string, where: string, body = ''): Socket {
    const { hostname, port } = new URL(url)
    const socket = connect(Number(port), hostname)
    cleanUps.push(() => socket.destroy())
    socket.on('error', () => {})
    socket.pause()
    socket.write(
      `${method} ${where} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    )
    return socket
  }

  it('slow down a shell command instead of buffering its output', async () => {
    const { daemon, base } = await begin()
    const before = rssMb(daemon)
    const socket = unread(
      daemon,
      'POST',
      `${base}/exec`,
      JSON.stringify({ cmd: 'head -c 2000000000 /dev/zero | tr "\\0" x; echo done', stream: true }),
    )
    await new Promise((resolve) => setTimeout(resolve, 8_000))
    expect(rssMb(daemon) - before).toBeLessThan(300)
    socket.destroy()
  }, 60_000)

  it('and endless bodies stay within the same memory', async () => {
    const { daemon, call, base } = await begin({ max_body_mb: 32 })
    const { hostname, port } = new URL(daemon.url)
    const body = Buffer.alloc(20_000_000, ' ')
    const answers = Array.from({ length: 8 }, () => {
      const socket = connect(Number(port), hostname)
      cleanUps.push(() => socket.destroy())
      socket.on('error', () => {})
      socket.write(
        `POST ${base}/run HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-length: ${body.length + 1}\r\n\r\n`,
      )
      socket.write(body)
      return new Promise<string>((resolve) =>
        socket.once('data', (data) => resolve(data.toString().split('\r\n')[0]!)),
      )
    })
    let refused = 0
    for (const answer of answers)
      void answer.then((line) => {
        if (line.includes(' 429 ')) refused += 1
      })
    // At most three of 20 MB fit into 64 MiB. Fewer may: bodies that arrive at the same time share the room.
    await expect.poll(() => refused, { timeout: 20_000 }).toBeGreaterThanOrEqual(5)
    expect((await call('GET', base)).status).toBe(200)
  }, 60_000)

  it('get large responses only while their project has memory', async () => {
    const { daemon, call, base } = await begin({ max_result_mb: 16 })
    // More than the buffers of two sockets hold.
    const args = ['-c', 'head -c 15000000 /dev/zero | tr "\\0" x']
    await call('POST', `${base}/run`, { cmd: 'sh', args, exec_id: 'e', max_output_bytes: 15_000_000 })
    const before = rssMb(daemon)
    const more = () => unread(daemon, 'GET', `${base}/execs/e`)
    const sockets = Array.from({ length: 60 }, more)
    const ask = async () => {
      sockets.push(more())
      return (await call('GET', `${base}/execs/e`)).body.code
    }
    await expect.poll(ask, { timeout: 30_000 }).toBe('rate_limited')
    expect(rssMb(daemon) - before).toBeLessThan(500)
    expect((await call('GET', base)).status).toBe(200)
    for (const socket of sockets) socket.destroy()
    await expect.poll(async () => (await call('GET', `${base}/execs/e`)).status).toBe(200)
  }, 60_000)
})

function callerOf({ url }: SpawnedDaemon) {
  return async (method: string, where: string, json?: unknown) => {
    const response = await fetch(`${url}${where}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(json),
    })
    const text = await response.text()
    // biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
    return { status: response.status, body: JSON.parse(text) as any, bytes: text.length }
  }
}

/** Returns 0 when the process has ended. */
function rssMb({ process }: SpawnedDaemon): number {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${process.pid}/status`, 'utf8'))![1]) / 1024
  } catch {
    return 0
  }
}
