import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { SandboxError, type SandboxErrorCode } from '@sandkasten/sdk'
import { DaytonaProvider } from '@sandkasten/sdk/daytona'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../../packages/daemon/src/testing/isolator.ts'
import { type Fault, FaultProxy } from '../fault-proxy.ts'

const missing = await isolationMissing()
const html = '<html><body><h1>Sign in</h1></body></html>'
const execute = /^POST .*\/process\/execute$/
const create = /^POST \/api\/sandbox$/
const list = /^GET \/api\/sandbox$/
const look = /^GET \/api\/sandbox\/[^/]+$/
const remove = /^DELETE \/api\/sandbox\/[^/]+$/
const answer = (status: number, body = html, headers: Record<string, string> = {}): Fault => ({
  kind: 'answer',
  status,
  body,
  headers: { 'x-request-id': `req-${status}`, ...headers },
})

const overQuota = (message: string) =>
  answer(403, JSON.stringify({ statusCode: 403, message }), { 'content-type': 'application/json' })

/** Our provider on the vendor's SDK, with faults in between. */
describe.skipIf(missing !== undefined)(
  `faults under the Daytona provider${missing ? ` (${missing})` : ''}`,
  () => {
    let proxy: FaultProxy
    let daemon: TestDaemon
    let provider: DaytonaProvider

    beforeAll(async () => {
      proxy = await FaultProxy.start()
      daemon = await startTestDaemon({
        isolator: 'oci',
        fronts: { daytona: { listen: '127.0.0.1:0' } },
      })
      proxy.target = daemon.daemon.fronts.daytona!
      provider = providerAt({})
    })
    afterEach(() => proxy.rules())
    afterAll(async () => {
      await daemon?.stop()
      await proxy?.stop()
    })

    function providerAt(options: { apiKey?: string; target?: string; requestTimeoutMs?: number }) {
      return new DaytonaProvider({
        apiKey: daemon.key,
        apiUrl: `${proxy.url}/api`,
        target: 'local',
        requestTimeoutMs: 20_000,
        ...options,
      })
    }
    const left = async () => (await daemon.call('GET', '/v1/sessions?status=running')).body.sessions.length
    const failure = async (work: Promise<unknown>): Promise<SandboxError> => {
      const error = await work.then(
        () => undefined,
        (thrown: unknown) => thrown,
      )
      expect(SandboxError.is(error), String(error)).toBe(true)
      return error as SandboxError
    }

    const creates: Array<[string, Fault, SandboxErrorCode[]]> = [
      ['an invalid key', answer(401), ['unauthenticated']],
      ['a missing permission', answer(403), ['forbidden']],
      ['an exceeded quota', overQuota('Total CPU limit exceeded. Maximum allowed: 10.'), ['quota_exceeded']],
      [
        'an exceeded limit of one sandbox',
        overQuota('Disk request 20GB exceeds maximum allowed per sandbox (10GB).'),
        ['quota_exceeded'],
      ],
      ['a gateway’s page with 502', answer(502), ['unavailable']],
      ['a server error', answer(500, '{"message":"oops"}'), ['provider_error']],
      ['an HTML page with 200', answer(200), ['provider_error', 'not_found', 'invalid_argument']],
      ['a connection lost before the request', { kind: 'cut-before' }, ['connection_lost']],
      ['a connection lost after the request', { kind: 'cut-after' }, ['connection_lost']],
      ['half a response', { kind: 'half' }, ['connection_lost', 'provider_error']],
      ['a corrupted response', { kind: 'corrupt' }, ['provider_error', 'not_found', 'invalid_argument']],
    ]
    it.each(creates)('create: %s is one error of the table, and nothing is left', async (_, fault, codes) => {
      proxy.rules({ on: create, fault })
      const error = await failure(provider.create())
      expect(codes, error.message).toContain(error.code)
      expect(error.provider).toBe('daytona')
      if (fault.kind === 'answer' && fault.status >= 400) expect(error.requestId).toBe(`req-${fault.status}`)
      expect(proxy.count(create)).toBeLessThan(2)
      expect(await left()).toBe(0)
    })

    it('create: a rate limit has the time to wait', async () => {
      proxy.rules({ on: create, fault: answer(429, '{}', { 'retry-after': '7' }) })
      const error = await failure(provider.create())
      expect([error.code, error.retryable, error.details.retryAfterMs]).toEqual(['rate_limited', true, 7000])
      expect(error.requestId).toBe('req-429')
    })

    it('create: an unknown region, a wrong key, an unreachable server', async () => {
      expect((await failure(providerAt({ target: 'mars' }).create())).code).toBe('not_found')
      expect((await failure(providerAt({ apiKey: 'wrong-key-wrong' }).create())).code).toBe('unauthenticated')
      const nowhere = new DaytonaProvider({ apiKey: 'x', apiUrl: 'http://127.0.0.1:9/api', target: 'local' })
      expect(await nowhere.healthCheck()).toBe(false)
      const error = await failure(nowhere.create())
      expect([error.code, error.details.left]).toEqual([
        'connection_lost',
        expect.stringMatching(/^sandkasten\.create=/),
      ])
    })

    // The SDK waits for the start in the same call, so a failure then looks like a failed create.
    const isCreating: Fault = { kind: 'corrupt', from: '"state":"started"', to: '"state":"creating"' }
    it.each([401, 403, 404, 409, 429, 500])(
      'create: %i during the start leaves nothing either',
      async (status) => {
        proxy.rules({ on: create, fault: isCreating }, { on: look, fault: answer(status) })
        const error = await failure(provider.create())
        expect([error.details.status, error.details.left]).toEqual([status, undefined])
        expect([proxy.count(create), proxy.count(remove), await left()]).toEqual([1, 1, 0])
      },
    )

    it('create: a sandbox that is still being created is deleted as soon as possible', async () => {
      proxy.rules(
        { on: create, fault: isCreating },
        { on: look, fault: answer(429) },
        { on: remove, fault: answer(409), times: 3 },
      )
      expect((await failure(provider.create())).details.left).toBeUndefined()
      expect(await left()).toBe(0)
    })

    it('create: leftovers are named by label or id', async () => {
      proxy.rules({ on: create, fault: { kind: 'cut-after' } }, { on: list, fault: answer(503), times: 100 })
      const lost = await failure(provider.create())
      expect(lost).toMatchObject({ code: 'connection_lost', provider: 'daytona' })
      expect(lost.details.left).toMatch(/^sandkasten\.create=[a-z2-7]+$/)
      expect(lost.cause).toBeInstanceOf(AggregateError)
      proxy.rules(
        { on: create, fault: { kind: 'cut-after' } },
        { on: remove, fault: answer(500), times: 100 },
      )
      const kept = await failure(provider.create())
      proxy.rules()
      const labels = (await provider.list()).map(({ sandboxId }) => sandboxId)
      expect([labels.length, labels.includes(String(kept.details.left))]).toEqual([2, true])
      expect(`${kept.hint} ${kept.message}`).toContain(String(kept.details.left))
      for (const id of labels) await provider.destroy(id)
      expect(await left()).toBe(0)
    })

    it('create: an image without perl is unsupported, and nothing is left', async () => {
      const body = JSON.stringify({ exitCode: 127, result: 'sh: 1: exec: perl: not found\n' })
      const noPerl = answer(200, body, { 'content-type': 'application/json' })
      proxy.rules({ on: execute, fault: noPerl, times: 100 })
      const error = await failure(provider.create())
      expect([error.code, error.message]).toEqual(['unsupported', expect.stringContaining('perl')])
      expect(await left()).toBe(0)
    })

    it.each([
      ['is refused', create, answer(500)],
      ['fails while it starts', look, answer(500)],
    ])('create: a program exits by itself after a create that %s', async (_, on, fault) => {
      proxy.rules({ on: create, fault: isCreating, times: on === create ? 0 : 1 }, { on, fault })
      const program = `
        import { DaytonaProvider } from '@sandkasten/sdk/daytona'
        const provider = new DaytonaProvider({ target: 'local' })
        console.log(await provider.create().then(() => 'made', ({ code }) => code))`
      const child = spawn(
        process.execPath,
        ['--conditions=sandkasten-source', '--input-type=module', '-e', program],
        {
          cwd: import.meta.dirname,
          stdio: ['ignore', 'pipe', 'inherit'],
          env: { ...process.env, DAYTONA_API_KEY: daemon.key, DAYTONA_API_URL: `${proxy.url}/api` },
        },
      )
      let said = ''
      child.stdout.on('data', (data) => {
        said += data
      })
      const [code] = await once(child, 'close')
      expect([code, said, await left()]).toEqual([0, 'provider_error\n', 0])
    })

    it('fork: a copy that could not be labelled is deleted, and one that could not be deleted is named', async () => {
      const sandbox = await provider.create()
      const labels = /^PUT .*\/labels$/
      try {
        proxy.rules({ on: labels, fault: answer(500), times: 100 })
        const [failed] = await sandbox.fork()
        expect(failed).toMatchObject({ code: 'provider_error', requestId: 'req-500' })
        expect(await left()).toBe(1)
        // The response of the fork is lost: the copy is found by its name.
        proxy.rules({ on: /^POST .*\/fork$/, fault: { kind: 'cut-after' } })
        expect(await sandbox.fork()).toMatchObject([{ code: 'connection_lost' }])
        expect(await left()).toBe(1)
        proxy.rules(
          { on: labels, fault: answer(500), times: 100 },
          { on: remove, fault: answer(500), times: 100 },
        )
        const [kept] = (await sandbox.fork()) as SandboxError[]
        proxy.rules()
        expect([await left(), kept!.details.left]).toEqual([2, expect.any(String)])
        await daemon.call('DELETE', `/v1/sessions/${kept!.details.left}`)
        expect(await left()).toBe(1)
      } finally {
        proxy.rules()
        await sandbox.destroy()
      }
    })

    it('start() unarchives an archived sandbox', async () => {
      const sandbox = await provider.create()
      try {
        await sandbox.files.writeFile('note', 'kept')
        await sandbox.stop()
        const archived: Fault = { kind: 'corrupt', from: '"state":"stopped"', to: '"state":"archived"' }
        proxy.rules({ on: look, fault: archived })
        expect((await sandbox.info()).status).toBe('archived')
        proxy.rules({ on: look, fault: archived })
        await sandbox.start()
        expect(proxy.count(/^POST .*\/start$/)).toBe(1)
        expect(await sandbox.files.readFile('note', 'utf8')).toBe('kept')
      } finally {
        proxy.rules()
        await sandbox.destroy()
      }
    })

    it('create: silence is a timeout, and nothing is left', async () => {
      proxy.rules({ on: create, fault: { kind: 'silence' } })
      const impatient = new DaytonaProvider({
        apiKey: daemon.key,
        apiUrl: `${proxy.url}/api`,
        target: 'local',
        startTimeoutMs: 1_500,
      })
      expect((await failure(impatient.create())).code).toBe('timeout')
      expect(await left()).toBe(0)
    })

    const passing: Array<[string, Fault, number]> = [
      ['a connection lost before the request', { kind: 'cut-before' }, 1],
      ['a connection lost after the request', { kind: 'cut-after' }, 1],
      ['half a response', { kind: 'half' }, 1],
      ['a corrupted response', { kind: 'corrupt' }, 1],
      ['two pages with 503', answer(503), 2],
      ['an HTML page with 200', answer(200), 1],
      ['a duplicated request', { kind: 'duplicate' }, 1],
      ['a rate limit with a short wait', answer(429, '{}', { 'retry-after': '1' }), 1],
      ['a delay', { kind: 'delay', ms: 500 }, 1],
    ]
    it.each(passing)('command: survives %s, and the command runs once', async (_, fault, times) => {
      const sandbox = await provider.create()
      try {
        const script = 'echo x >> ran; echo out; echo err >&2; sleep 0.3; exit 3'
        // The first request starts it, the others read.
        for (const after of [0, 1]) {
          await sandbox.files.rm('ran', { force: true })
          proxy.rules({ on: execute, fault, times, after })
          const result = await sandbox.runCommand({ cmd: 'sh', args: ['-c', script] })
          proxy.rules()
          expect([result.exitCode, result.stdout, result.stderr]).toEqual([3, 'out\n', 'err\n'])
          expect((await sandbox.files.readFile('ran', 'utf8')).trim()).toBe('x')
        }
      } finally {
        await sandbox.destroy()
      }
    })

    it('command: a permanent fault is one error of the table, with the request id', async () => {
      const sandbox = await provider.create()
      try {
        for (const [status, code] of [
          [401, 'unauthenticated'],
          [500, 'provider_error'],
          [503, 'unavailable'],
        ] as const) {
          proxy.rules({ on: execute, fault: answer(status), times: 100 })
          const error = await failure(sandbox.runCommand({ cmd: 'true' }))
          expect([error.code, error.requestId, error.sandboxId]).toEqual([
            code,
            `req-${status}`,
            sandbox.sandboxId,
          ])
        }
        proxy.rules()
        expect((await sandbox.runCommand({ cmd: 'echo', args: ['on'] })).stdout).toBe('on\n')
      } finally {
        proxy.rules()
        await sandbox.destroy()
      }
    })

    it('command: silence is a timeout; the started command is found again', async () => {
      const impatient = providerAt({ requestTimeoutMs: 2_000 })
      const sandbox = await impatient.create()
      try {
        const process = await sandbox.spawn({
          cmd: 'sh',
          args: ['-c', 'echo one; sleep 1; echo two'],
          detached: true,
        })
        proxy.rules({ on: execute, fault: { kind: 'silence' }, times: 100 })
        expect((await failure(process.wait())).code).toBe('timeout')
        proxy.rules()
        expect((await (await sandbox.getProcess(process.execId)).wait()).stdout).toBe('one\ntwo\n')
      } finally {
        proxy.rules()
        await sandbox.destroy()
      }
    })

    it('a sandbox deleted by another client is not_found in every call', async () => {
      const sandbox = await provider.create()
      await daemon.call('DELETE', `/v1/sessions/${sandbox.sandboxId}`)
      expect((await failure(sandbox.runCommand({ cmd: 'true' }))).code).toBe('not_found')
      expect((await failure(sandbox.files.readFile('x'))).code).toBe('not_found')
      expect((await failure(sandbox.stop())).code).toBe('not_found')
      expect(await sandbox.destroy()).toBe(false)
    })

    it('files: a truncated transfer is an error, never a shorter file; the old one stays', async () => {
      const sandbox = await provider.create()
      try {
        const large = Buffer.alloc(3_000_000, 'abc')
        await sandbox.files.writeFile('large', large)
        proxy.rules({ on: /bulk-download/, fault: { kind: 'half' } })
        expect((await failure(sandbox.files.readFile('large'))).code).toBe('connection_lost')
        proxy.rules({ on: /bulk-upload/, fault: { kind: 'cut-before' } })
        expect((await failure(sandbox.files.writeFile('large', Buffer.alloc(2_000_000)))).code).toBe(
          'connection_lost',
        )
        proxy.rules()
        expect(large.equals(await sandbox.files.readFile('large'))).toBe(true)
        expect(await sandbox.files.readdir('.')).toEqual(['large'])
      } finally {
        proxy.rules()
        await sandbox.destroy()
      }
    })
  },
)
