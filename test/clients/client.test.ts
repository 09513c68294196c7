import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import path from 'node:path'
import vm from 'node:vm'
import { type ExecResult, SandboxClient, SandboxError, type Session } from '@sandkasten/sdk/client'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { signSecret } from '../../packages/daemon/test/access/issuer.ts'
import type * as plan from '../seeds/snippets/client.d.ts'

const secret = 'a-secret-of-the-issuer-with-32-bytes'

describe('the client of the daemon’s API', () => {
  let daemon: TestDaemon
  let client: SandboxClient
  let session: Session
  beforeAll(async () => {
    daemon = await startTestDaemon({ jwt: { secret, create_projects: true } })
    client = new SandboxClient({ url: `${daemon.daemon.url}/`, apiKey: daemon.key })
    session = await client.createSession({ ttlSeconds: 600, labels: { test: 'client' } })
  })
  afterAll(() => daemon?.stop())

  it('has the signatures of the first plan', () => {
    expectTypeOf<SandboxClient>().toExtend<plan.SandboxClient>()
    expectTypeOf<Session>().toExtend<plan.Session>()
    expectTypeOf<ExecResult>().toExtend<plan.ExecResult>()
    expectTypeOf<ConstructorParameters<typeof plan.SandboxClient>>().toExtend<
      ConstructorParameters<typeof SandboxClient>
    >()
  })

  it('implements the first plan: create, exec, write, read, list, get, destroy', async () => {
    const own = await client.createSession()
    await own.write('dir/hello.sh', 'echo "hello $NAME"')
    await own.exec('cd dir && export NAME=you', { timeoutMs: 20_000 })
    const result: ExecResult = await own.exec('sh hello.sh; (exit 3)')
    expect(result).toMatchObject({ exitCode: 3, output: 'hello you\n', truncated: false, timedOut: false })
    expect([result.cwd.endsWith('/dir'), result.durationMs > 0]).toEqual([true, true])
    expect(new TextDecoder().decode(await own.read('dir/hello.sh', { maxBytes: 4 }))).toBe('echo')
    expect((await client.listSessions()).map(({ id }) => id)).toContain(own.id)
    expect((await client.getSession(own.id)).id).toBe(own.id)
    await own.destroy()
    await expect(own.exec('true')).rejects.toMatchObject({ code: 'gone', status: 410 })
    expect((await own.info()).status).toBe('destroyed')
  })

  it('separates the streams of a program, and passes its arguments unchanged', async () => {
    const args = ['-c', 'cat; printf %s "$1" >&2; exit 4', 'sh', 'it’s * $HOME']
    const result = await session.run('sh', { args, stdin: 'in\n', env: { A: 'b' } })
    expect(result).toMatchObject({ stdout: 'in\n', stderr: 'it’s * $HOME', exitCode: 4, timedOut: false })
  })

  it('resumes output after a lost connection, without loss or repetition', async () => {
    let cuts = 0
    const urls: string[] = []
    const cutting = new SandboxClient({
      url: daemon.daemon.url,
      apiKey: daemon.key,
      async fetch(input, init) {
        const response = await fetch(input, init)
        if (!response.headers.get('content-type')?.includes('event-stream')) return response
        urls.push(String(input))
        cuts += 1
        return cuts > 6 ? response : new Response(cutAfter(response.body!, cuts * 400), response)
      },
    }).session(session.id)
    const command = await cutting.start('sh', {
      args: ['-c', 'for i in $(seq 1 300); do echo "line $i"; done; echo end >&2; exit 7'],
    })
    const seqs: number[] = []
    let text = ''
    for await (const event of command.output()) {
      seqs.push(event.seq)
      if (event.type === 'stdout') text += new TextDecoder().decode(event.data)
      if (event.type === 'exit') expect(event.exitCode).toBe(7)
    }
    expect(text).toBe(Array.from({ length: 300 }, (_, index) => `line ${index + 1}\n`).join(''))
    expect(seqs).toEqual(seqs.map((_, index) => index + 1))
    expect(urls.length).toBeGreaterThan(1)
    expect(urls.slice(1).every((url) => url.includes('/output?after='))).toBe(true)
  })

  it('a repeat with the same execId returns the first command', async () => {
    const options = { execId: 'mine-1' }
    const [one, two] = [
      await session.exec('echo $RANDOM', options),
      await session.exec('echo $RANDOM', options),
    ]
    expect(two.output).toBe(one.output)
    await expect(session.exec('other', options)).rejects.toMatchObject({ code: 'conflict' })
    expect((await session.command('mine-1').info()).status).toBe('done')
  })

  it('receives output while a command runs, writes to one, and signals one', async () => {
    let heard = ''
    await session.exec('echo one; echo two', { onOutput: (text) => (heard += text) })
    expect(heard).toBe('one\ntwo\n')
    const cat = await session.start('cat', { stdinOpen: true })
    await cat.write('in')
    await cat.write(' order')
    await cat.closeStdin()
    expect(await cat.wait()).toMatchObject({ stdout: 'in order', exitCode: 0 })
    const sleeper = await session.start('sleep', { args: ['1000000'] })
    expect(await sleeper.signal('SIGKILL')).toBe(true)
    expect(await sleeper.wait()).toMatchObject({ signal: 'SIGKILL' })
    expect(await sleeper.signal('SIGKILL')).toBe(false)
  })

  it('rejects input for a program without stdin, and keeps the connection usable', async () => {
    const waiting = await session.start('sleep', { args: ['1000000'], stdinOpen: true })
    const writing = waiting.write(new Uint8Array(2 * 1024 * 1024)).catch((error: unknown) => error)
    await waiting.signal('SIGKILL')
    expect(await writing).toMatchObject({ code: 'stdin_closed' })
    const next = await Promise.all(Array.from({ length: 8 }, () => session.run('echo', { args: ['on'] })))
    expect(next.map(({ stdout }) => stdout)).toEqual(next.map(() => 'on\n'))
  })

  it('cancelling ends the command, and the shell still works', async () => {
    const controller = new AbortController()
    const running = session.exec('echo begun; sleep 1000000', {
      signal: controller.signal,
      onOutput: () => controller.abort(),
    })
    await expect(running).rejects.toMatchObject({ code: 'aborted' })
    expect((await session.exec('echo on')).output).toBe('on\n')
  })

  it('streams files, also ranges, and reports errors', async () => {
    const block = new TextEncoder().encode('0123456789abcdef'.repeat(4096))
    async function* blocks() {
      for (let at = 0; at < 48; at += 1) yield block
    }
    await session.files.write('big', blocks(), { mode: 0o600 })
    expect(await session.files.stat('big')).toMatchObject({ size: 48 * 65_536, mode: 0o600 })
    const part = await session.files.readStream('big', { start: 65_530, end: 65_546 })
    expect(await new Response(part).text()).toBe('abcdef0123456789')
    await session.files.mkdir('a/b', { recursive: true })
    await session.files.move('big', 'a/b/big')
    expect((await session.files.list('a', { recursive: true })).map((entry) => entry.path)).toEqual([
      'b',
      'b/big',
    ])
    const archive = await session.files.pack('a')
    await session.files.unpack(archive, 'copy')
    expect((await session.files.stat('copy/b/big')).size).toBe(48 * 65_536)
    const error = await session.read('nothing').catch((error: unknown) => error)
    expect(error).toBeInstanceOf(SandboxError)
    expect(error).toMatchObject({
      code: 'file_not_found',
      status: 404,
      requestId: expect.stringMatching(/.{8}/),
    })
  })

  it('a failing source is the error of the write, and the old content stays', async () => {
    await session.write('kept', 'old')
    async function* broken() {
      for (let at = 0; at < 40; at += 1) yield new Uint8Array(65_536)
      throw new Error('the source broke')
    }
    await expect(session.files.write('kept', broken())).rejects.toThrow('the source broke')
    expect(String(await session.files.read('kept'))).toBe('old')
  })

  it('snapshots, forks, stops, starts, labels, and lists events', async () => {
    const own = await client.createSession({ name: 'origin', idempotencyKey: 'once' })
    expect((await client.createSession({ name: 'origin', idempotencyKey: 'once' })).id).toBe(own.id)
    await own.write('note', 'saved')
    const saved = await own.snapshot({ name: 'first' })
    expect((await client.listSnapshots()).map(({ id }) => id)).toContain(saved.id)
    const copy = await client.createSession({ snapshotId: saved.id })
    expect(String(await copy.files.read('note'))).toBe('saved')
    const [fork] = await own.fork()
    if (fork instanceof Error) throw fork
    expect(String(await fork!.session.files.read('note'))).toBe('saved')
    expect((await own.stop()).status).toBe('stopped')
    await expect(own.exec('true')).rejects.toMatchObject({ code: 'not_running' })
    expect(await own.startAgain()).toMatchObject({ status: 'running', incarnation: 2 })
    expect((await own.setLabels({ color: 'red', shape: 'round' })).labels).toEqual({
      color: 'red',
      shape: 'round',
    })
    expect((await own.setLabels({ shape: null })).labels).toEqual({ color: 'red' })
    expect((await client.listSessions({ labels: { color: 'red' }, limit: 1 })).map(({ id }) => id)).toEqual([
      own.id,
    ])
    expect(await client.deleteSnapshot(saved.id)).toBe(true)
    expect(await client.deleteSnapshot(saved.id)).toBe(false)
    const types: string[] = []
    for await (const { type } of own.events({ after: 0 })) {
      types.push(type)
      if (types.length === 4) break
    }
    expect(types).toEqual(['session.running', 'snapshot.created', 'session.stopped', 'session.running'])
  })

  it('rejects a bound session after a restart', async () => {
    const own = await client.createSession()
    const bound = client.session(own.id, { bound: 1 })
    await bound.exec('true')
    await own.stop()
    await own.startAgain()
    await expect(bound.exec('true')).rejects.toMatchObject({ code: 'interrupted' })
    await expect(bound.files.list()).rejects.toMatchObject({ code: 'interrupted' })
  })

  it('works with a token, and lists the sessions of a subject', async () => {
    const own = new SandboxClient({ url: daemon.daemon.url, apiKey: await signSecret(secret) })
    const made = await own.createSession()
    expect((await made.exec('echo hi')).output).toBe('hi\n')
    expect((await made.info()).subject).toBe('user-1')
    expect((await own.listSessions({ subject: 'user-1' })).map(({ id }) => id)).toEqual([made.id])
    expect(await own.listSessions({ subject: 'user-2' })).toEqual([])
    expect((await session.info()).subject).toBeUndefined()
  })

  it('reads and replaces the policy of a project', async () => {
    const policy = { images: ['host'], max: { memoryMb: 256 }, maxLifetimeSeconds: 60, pool: [] }
    const { effective, ...rest } = await client.setPolicy('default', policy)
    try {
      expect(rest).toEqual({ policy })
      expect(effective).toMatchObject({ images: ['host'], defaultImage: 'host', maxLifetimeSeconds: 60 })
      expect(effective.max).toMatchObject({ memoryMb: 256, cpu: 16 })
      expect(await client.getPolicy('default')).toEqual({ policy, effective })
      await expect(client.createSession({ lifetimeSeconds: 61 })).rejects.toMatchObject({
        code: 'forbidden',
        details: { policy: 'max_lifetime_seconds', allowed: 60 },
      })
    } finally {
      expect((await client.setPolicy('default', {})).policy).toEqual({})
    }
    await expect(client.getPolicy('none-such')).rejects.toMatchObject({ code: 'not_found' })
  })

  it('reports wrong keys, unreachable daemons, and ids that are paths', async () => {
    const wrong = new SandboxClient({ url: daemon.daemon.url, apiKey: 'sk-wrong-key' })
    await expect(wrong.listSessions()).rejects.toMatchObject({ code: 'unauthenticated', status: 401 })
    expect([await wrong.isReady(), await client.isReady()]).toEqual([false, true])
    const away = new SandboxClient({
      url: `http://127.0.0.1:${await unusedPort()}`,
      apiKey: 'sk-any-key',
    })
    await expect(away.listSessions()).rejects.toMatchObject({ code: 'unavailable', retryable: true })
    for (const id of ['..', '.', '', '../keys', 'aaaaaaaaaaaaaaaa'])
      await expect(client.getSession(id)).rejects.toMatchObject({ code: 'not_found' })
    expect(() => new SandboxClient({ url: 'daemon:8080', apiKey: 'x' })).toThrow(/http/)
    expect(() => new SandboxClient({ url: daemon.daemon.url, apiKey: 'a\nb' })).toThrow(/key/)
  })

  it('runs without Node', async () => {
    const contents = `import { SandboxClient } from './client/index.ts'
      import { DaemonProvider } from './providers/daemon/index.ts'
      ;(async () => {
      const [baseUrl, apiKey] = given
      const session = await new SandboxClient({ baseUrl, apiKey }).createSession()
      const { output } = await session.exec('echo page')
      await session.write('file', 'and bytes')
      const text = new TextDecoder().decode(await session.read('file'))
      const sandbox = await new DaemonProvider({ url: baseUrl, apiKey }).get(session.id)
      const { stdout } = await sandbox.runCommand({ cmd: 'echo', args: ['and contract'] })
      done(output + text + '\\n' + stdout)
      })().catch(done)`
    const source = path.resolve(import.meta.dirname, '../../packages/sdk/src')
    const bundled = await build({
      stdin: {
        contents,
        resolveDir: source,
      },
      write: false,
      bundle: true,
      format: 'iife',
      platform: 'browser',
    })
    const answer = await new Promise((done) => {
      const { TextEncoder, TextDecoder, ReadableStream, AbortController, AbortSignal, URLSearchParams } =
        globalThis
      const { crypto, fetch, setTimeout, clearTimeout, atob, btoa, Response } = globalThis
      const web = { TextEncoder, TextDecoder, ReadableStream, AbortController, AbortSignal, URLSearchParams }
      const given = [daemon.daemon.url, daemon.key]
      const page = { ...web, crypto, fetch, setTimeout, clearTimeout, atob, btoa, Response, done, given }
      vm.runInNewContext(bundled.outputFiles[0]!.text, page)
    })
    expect(answer).toBe('page\nand bytes\nand contract\n')
  })
})

async function unusedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}

/** A body whose connection is lost after this many bytes. */
function cutAfter(body: ReadableStream<Uint8Array>, bytes: number): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  let left = bytes
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await reader.read()
      if (done) return controller.close()
      controller.enqueue(value.subarray(0, left))
      left -= value.byteLength
      if (left > 0) return
      controller.error(new TypeError('terminated'))
      await reader.cancel()
    },
    cancel: (reason) => reader.cancel(reason),
  })
}
