import { SandboxError, type SandboxHandle } from '@sandkasten/sdk'
import { E2BProvider } from '@sandkasten/sdk/e2b'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../../packages/daemon/src/testing/daemon.ts'
import { type Fault, FaultProxy } from '../fault-proxy.ts'

const html = '<!doctype html><title>Bad gateway</title>'
const page = (status: number): Fault => ({ kind: 'answer', status, body: html })
const json = (status: number, body: object, headers: Record<string, string> = {}): Fault => ({
  kind: 'answer',
  status,
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify(body),
})
const create = /^POST \/v2\/sandboxes$/
const start = /^POST \/process\.Process\/Start$/
const files = /^(GET|POST) \/files$/

/** What a user sees if the vendor misbehaves: one code, the request id, nothing done twice, nothing left. */
describe('the E2B provider under faults', () => {
  let daemon: TestDaemon
  let proxy: FaultProxy
  const provider = (options: { apiKey?: string; requestTimeoutMs?: number } = {}) =>
    new E2BProvider({
      apiKey: daemon.key,
      apiUrl: proxy.url,
      sandboxUrl: proxy.url,
      requestTimeoutMs: 30_000,
      ...options,
    })
  const running = async () =>
    (await daemon.call('GET', '/v1/sessions?status=running,paused')).body.sessions.length
  const failure = async (work: Promise<unknown>): Promise<SandboxError> => {
    const error = await work.then(
      () => undefined,
      (caught: unknown) => caught,
    )
    if (!SandboxError.is(error)) throw new Error(`It did not fail as it should: ${String(error)}`)
    expect(error.provider).toBe('e2b')
    expect(JSON.stringify(error)).not.toContain(daemon.key)
    return error
  }
  beforeAll(async () => {
    daemon = await startTestDaemon({ preview_listen: 'off', fronts: { e2b: { listen: '127.0.0.1:0' } } })
    proxy = await FaultProxy.start()
    proxy.target = daemon.daemon.fronts.e2b!
  })
  beforeEach(() => proxy.rules())
  afterAll(async () => {
    await proxy?.stop()
    await daemon?.stop()
  })

  describe('of a create', () => {
    const table: Array<[name: string, fault: Fault, code: string, requestTimeoutMs?: number]> = [
      ['an HTML page', page(200), 'provider_error'],
      ['an HTML page with 502', page(502), 'unavailable'],
      ['500', json(500, { code: 500, message: 'broken' }), 'provider_error'],
      ['503', json(503, { code: 503, message: 'busy' }), 'unavailable'],
      ['504', page(504), 'timeout'],
      ['401', json(401, { code: 401, message: 'expired' }), 'unauthenticated'],
      ['an exceeded plan', json(402, { code: 402, message: 'pay' }), 'quota_exceeded'],
      ['403', json(403, { code: 403, message: 'not yours' }), 'forbidden'],
      ['a missing template', json(404, { code: 404, message: 'no template' }), 'not_found'],
      ['a missing region', json(400, { code: 400, message: 'no such region' }), 'invalid_argument'],
      ['a rate limit without a time', json(429, { code: 429, message: 'too many' }), 'rate_limited'],
      ['no connection', { kind: 'cut-before' }, 'connection_lost'],
      ['a lost response', { kind: 'cut-after' }, 'connection_lost'],
      ['half a response', { kind: 'half' }, 'connection_lost'],
      ['a corrupted response', { kind: 'corrupt' }, 'provider_error'],
      ['silence', { kind: 'silence' }, 'timeout', 1500],
    ]
    it.each(table)('%s', async (_, fault, code, requestTimeoutMs = 30_000) => {
      proxy.rules({ on: create, fault })
      const error = await failure(provider({ requestTimeoutMs }).create())
      expect([error.code, error.requestId]).toEqual([code, expect.stringMatching(/^[a-z2-7]{16}$/)])
      expect(proxy.count(create)).toBeLessThanOrEqual(1)
      expect(await running()).toBe(0)
    })

    it('waits for a rate limit with a time, and creates one sandbox', async () => {
      proxy.rules({
        on: create,
        fault: json(429, { code: 429, message: 'too many' }, { 'retry-after': '1' }),
      })
      const sandbox = await provider().create()
      expect([proxy.count(create), await running()]).toEqual([1, 1])
      await sandbox.destroy()
    })

    const limit = (seconds: string) =>
      json(429, { code: 429, message: 'too many' }, { 'retry-after': seconds })
    const limited = {
      code: 'rate_limited',
      retryable: true,
      details: { status: 429 },
    }
    it('reports a rate limit longer than the SDK waits', async () => {
      proxy.rules({ on: create, fault: limit('120') })
      expect(await failure(provider().create())).toMatchObject(limited)
      const sandbox = await provider().create()
      proxy.rules({ on: /^POST .*\/timeout$/, fault: limit('120') })
      expect(await failure(sandbox.extendTimeout(3_600_000))).toMatchObject({
        ...limited,
        requestId: expect.stringMatching(/^[a-z2-7]{16}$/),
        sandboxId: sandbox.sandboxId,
      })
      await sandbox.destroy()
    })

    it('removes what was created, with a second try if needed', async () => {
      const list = /^GET \/v2\/sandboxes$/
      proxy.rules({ on: create, fault: { kind: 'cut-after' } }, { on: list, fault: page(500) })
      const error = await failure(provider().create())
      expect([error.code, error.details.left]).toEqual(['connection_lost', undefined])
      expect([proxy.count(list), await running()]).toEqual([1, 0])
    })

    it('names what was created and cannot be removed', async () => {
      const list = /^GET \/v2\/sandboxes$/
      proxy.rules({ on: create, fault: { kind: 'cut-after' } }, { on: list, fault: page(500), times: 2 })
      const error = await failure(provider().create())
      expect(error).toMatchObject({
        code: 'connection_lost',
        details: { left: expect.stringMatching(/^metadata sandkasten\.making=[a-z2-7]{16}$/) },
        cause: { errors: [{ code: 'connection_lost' }, { code: 'provider_error' }] },
      })
      expect(error.hint).toContain(error.details.left)
      const [left] = await provider().list()
      expect(await provider().destroy(left!.id)).toBe(true)
    })

    it('does not leave a sandbox whose inside does not respond', async () => {
      proxy.rules({ on: /^POST \/filesystem\.Filesystem\/Stat$/, fault: page(500) })
      expect((await failure(provider().create())).code).toBe('provider_error')
      expect(await running()).toBe(0)
    })

    it('an invalid key', async () => {
      const wrong = provider({ apiKey: 'sk-wrong-key' })
      expect((await failure(wrong.create())).code).toBe('unauthenticated')
      expect([await wrong.healthCheck(), await provider().healthCheck()]).toEqual([false, true])
    })
  })

  describe('of a sandbox', () => {
    let sandbox: SandboxHandle
    beforeAll(async () => {
      proxy.rules()
      sandbox = await provider().create()
    })
    afterAll(() => sandbox?.destroy())
    const counted = (file: string) => ({ cmd: 'sh', args: ['-c', `echo ran >> ${file}; seq 1 50000`] })
    const runs = async (file: string) => {
      const text = (await sandbox.files.exists(file)) ? await sandbox.files.readFile(file, 'utf8') : ''
      return text.split('\n').filter(Boolean).length
    }

    const commands: Array<[name: string, fault: Fault, code: string, ran: number]> = [
      ['an HTML page', page(200), 'provider_error', 0],
      ['500', page(500), 'provider_error', 0],
      ['502 although it runs', json(502, { sandboxId: 'x', message: 'gone', code: 502 }), 'unavailable', 0],
      ['401', json(401, { code: 'unauthenticated', message: 'no' }), 'unauthenticated', 0],
      ['429', json(429, { code: 'resource_exhausted', message: 'no' }), 'unavailable', 0],
      ['no connection', { kind: 'cut-before' }, 'connection_lost', 0],
      ['a stream that is cut in the middle', { kind: 'cut-at', bytes: 20_000 }, 'connection_lost', 1],
    ]
    it.each(commands)('a command runs at most once: %s', async (_, fault, code, ran) => {
      const file = `ran-${Math.random().toString(36).slice(2)}`
      await sandbox.files.writeFile(file, '')
      proxy.rules({ on: start, fault })
      const error = await failure(sandbox.runCommand(counted(file)))
      expect(error.code).toBe(code)
      proxy.rules()
      await expect.poll(() => runs(file)).toBe(ran)
    })

    it('a silent command stream can be cancelled, and its program is ended', async () => {
      proxy.rules({ on: start, fault: { kind: 'stall-at', bytes: 400 } })
      const controller = new AbortController()
      const running = sandbox.runCommand({ cmd: 'sleep', args: ['1000000'], signal: controller.signal })
      running.catch(() => {})
      await expect.poll(() => proxy.count(start)).toBe(1)
      controller.abort()
      expect(await running.catch((error: unknown) => (error as SandboxError).code)).toBe('aborted')
    })

    it('a shell command whose stream is cut keeps running; the next one waits for it in the same shell', async () => {
      const shell = await sandbox.openShell()
      await shell.exec('KEPT=yes')
      proxy.rules({ on: start, fault: { kind: 'cut-at', bytes: 100_000 } })
      const line = "echo begun >>cut; head -c 300000 /dev/zero | tr '\\0' a; echo over >>cut"
      expect((await failure(shell.exec(line))).code).toBe('connection_lost')
      proxy.rules()
      expect((await shell.exec('echo "$KEPT"; cat cut')).output).toBe('yes\nbegun\nover\n')
      expect(await shell.close()).toBe(true)
    })

    it('a program whose stream is cut is found by another provider, which goes on where the first was cut', async () => {
      const lines = Array.from({ length: 20_000 }, (_, line) => `line ${line}\n`).join('')
      const script = 'seq -f "line %g" 0 19999; exit 5'
      const process = await sandbox.spawn({ cmd: 'sh', args: ['-c', script], execId: 'cut', detached: true })
      proxy.rules({ on: start, fault: { kind: 'cut-at', bytes: 60_000 } })
      let text = ''
      let last = 0
      const read = async (events: ReturnType<typeof process.output>) => {
        for await (const event of events) {
          if (event.type === 'stdout') text += Buffer.from(event.data).toString()
          last = event.seq
        }
      }
      expect((await failure(read(process.output()))).code).toBe('connection_lost')
      proxy.rules()
      const again = await (await provider().get(sandbox.id)).getProcess('cut')
      await read(again.output({ after: last }))
      expect(text === lines, `${text.length} of ${lines.length} characters`).toBe(true)
      expect((await again.status()).exit?.exitCode).toBe(5)
    })

    it.each<[name: string, request: RegExp, save: () => Promise<unknown>]>([
      [
        'snapshot()',
        /^POST \/sandboxes\/[^/]+\/snapshots$/,
        async () => provider().deleteSnapshot((await sandbox.snapshot()).snapshotId),
      ],
      [
        'fork()',
        /^POST \/sandboxes\/[^/]+\/fork$/,
        async () => (await sandbox.fork()).map((copy) => !(copy instanceof Error) && copy.destroy()),
      ],
    ])('%s cuts the streams of programs, as at the vendor; they go on', async (name, request, save) => {
      const begun = Promise.withResolvers<void>()
      const line = `echo before; while ! test -e "${name}"; do sleep 0.02; done; echo after`
      const running = sandbox.runCommand({
        cmd: 'sh',
        args: ['-c', line],
        onStdout: () => begun.resolve(),
      })
      running.catch(() => {})
      await begun.promise
      const terminal = await sandbox.openTerminal()
      proxy.rules({ on: request, fault: { kind: 'cut-others' } })
      await save()
      expect(proxy.count(request)).toBe(1)
      await sandbox.files.writeFile(name, '')
      expect((await running).stdout).toBe('before\nafter\n')
      await terminal.write('exit 7\n')
      let exit: number | undefined
      for await (const event of terminal.output()) if (event.type === 'exit') exit = event.exitCode
      expect(exit).toBe(7)
    })

    it('a command works although the agent in the sandbox was deleted', async () => {
      const run = () => sandbox.runCommand({ cmd: 'echo', args: ['on'] })
      await run()
      await sandbox.runCommand({ cmd: 'sh', args: ['-c', 'rm /tmp/.sandkasten/bin/agent-*'] })
      expect((await run()).stdout).toBe('on\n')
    })

    it('a truncated file is an error, never a shorter file', async () => {
      await sandbox.files.writeFile('long', 'x'.repeat(300_000))
      for (const [fault, code] of [
        [{ kind: 'cut-at', bytes: 100_000 }, 'connection_lost'],
        [{ kind: 'cut-before' }, 'connection_lost'],
        [page(500), 'provider_error'],
      ] satisfies Array<[Fault, string]>) {
        proxy.rules({ on: files, fault })
        expect((await failure(sandbox.files.readFile('long'))).code).toBe(code)
      }
      const impatient = await provider({ requestTimeoutMs: 3000 }).get(sandbox.id)
      proxy.rules({ on: files, fault: { kind: 'stall-at', bytes: 100_000 } })
      expect((await failure(impatient.files.readFile('long'))).code).toBe('timeout')
    })

    it('a failed write keeps the old content; a duplicated one is written once', async () => {
      await sandbox.files.writeFile('kept', 'old')
      for (const fault of [page(500), { kind: 'cut-before' }, { kind: 'half' }] satisfies Fault[]) {
        proxy.rules({ on: files, fault })
        await failure(sandbox.files.writeFile('kept', 'new'))
        expect(await sandbox.files.readFile('kept', 'utf8')).toBe('old')
      }
      proxy.rules({ on: files, fault: { kind: 'duplicate' } })
      await sandbox.files.appendFile('kept', ' and new')
      expect(await sandbox.files.readFile('kept', 'utf8')).toBe('old and new')
      expect((await sandbox.files.readdir('.')).filter((name) => name.startsWith('.sandkasten'))).toEqual([])
    })

    it('a sandbox deleted by another client is not_found', async () => {
      const own = await provider().create()
      await daemon.call('DELETE', `/v1/sessions/${own.sandboxId}`)
      expect((await failure(own.runCommand({ cmd: 'true' }))).code).toBe('not_found')
      expect((await failure(own.files.readFile('x'))).code).toBe('not_found')
      expect(await own.destroy()).toBe(false)
    })
  })

  it('an invalid or other SDK is reported with the install command', async () => {
    for (const sdk of [{}, { Sandbox: class Old {} }, () => ({ default: {} })]) {
      const error = await failure(new E2BProvider({ apiKey: 'x', sdk }).create())
      expect([error.code, error.hint]).toEqual(['sdk_missing', expect.stringContaining('npm install e2b@2')])
    }
    expect(() => new E2BProvider({ apiKey: 'x', apiUrl: 'localhost:1' })).toThrow(/apiUrl/)
  })
})
