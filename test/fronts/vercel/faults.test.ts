import { randomUUID } from 'node:crypto'
import { SandboxError } from '@sandkasten/sdk'
import { VercelProvider, type VercelProviderOptions } from '@sandkasten/sdk/vercel'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../../packages/daemon/src/testing/isolator.ts'
import { type Fault, FaultProxy } from '../fault-proxy.ts'

const missing = await isolationMissing()

/**
 * What a user of the provider sees if the vendor or the connection fails. The SDK, the front and the sandbox are
 * real.
 */
describe.skipIf(missing)(`faults under the provider vercel${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let daemon: TestDaemon
  let proxy: FaultProxy
  beforeAll(async () => {
    daemon = await startTestDaemon({ isolator: 'oci', fronts: { vercel: { listen: '127.0.0.1:0' } } })
    proxy = await FaultProxy.start()
    proxy.target = daemon.daemon.fronts.vercel!
  })
  afterEach(() => proxy?.rules())
  afterAll(async () => {
    await proxy?.stop()
    await daemon?.stop()
  })

  const provider = (options: Partial<VercelProviderOptions> = {}) =>
    new VercelProvider({
      token: daemon.key,
      teamId: 'team',
      projectId: 'project',
      baseUrl: proxy.url,
      requestTimeoutMs: 20_000,
      ...options,
    })
  const failure = async (work: Promise<unknown>): Promise<SandboxError> => {
    const error = await work.then(
      () => undefined,
      (error: unknown) => error,
    )
    if (!SandboxError.is(error)) throw new Error(`It did not fail with an error of ours: ${String(error)}`)
    expect(JSON.stringify(error) + error.message + error.hint).not.toContain(daemon.key)
    return error
  }
  const left = async () =>
    (await daemon.call('GET', '/v1/sessions?status=creating,running,stopped')).body.sessions.length

  const html = { 'content-type': 'text/html', 'x-vercel-id': 'fra1::abc' }
  const answers: Array<[string, Fault, object]> = [
    [
      'a wrong token',
      {
        kind: 'answer',
        status: 401,
        headers: { 'x-vercel-id': 'fra1::abc' },
        body: '{"error":{"code":"forbidden","message":"Not authorized"}}',
      },
      { code: 'unauthenticated', requestId: 'fra1::abc' },
    ],
    [
      'a token of another team',
      {
        kind: 'answer',
        status: 403,
        headers: { 'x-vercel-id': 'fra1::abc' },
        body: '{"error":{"code":"forbidden","message":"Not yours"}}',
      },
      { code: 'forbidden', requestId: 'fra1::abc', details: { status: 403, vendorCode: 'forbidden' } },
    ],
    [
      'a rate limit with a time',
      {
        kind: 'answer',
        status: 429,
        headers: { 'retry-after': '7', 'x-vercel-id': 'fra1::abc' },
        body: '{}',
      },
      { code: 'rate_limited', retryable: true, requestId: 'fra1::abc', details: { retryAfterMs: 7000 } },
    ],
    [
      'an exceeded plan',
      { kind: 'answer', status: 402, body: '{"error":{"code":"payment_required","message":"Upgrade"}}' },
      { code: 'quota_exceeded', details: { vendorCode: 'payment_required' } },
    ],
    [
      'an unknown region',
      { kind: 'answer', status: 400, body: '{"error":{"code":"bad_request","message":"Invalid region"}}' },
      { code: 'invalid_argument', message: expect.stringContaining('Invalid region') },
    ],
    [
      'an HTML page with 200',
      { kind: 'answer', status: 200, headers: html, body: '<html>' },
      { code: 'provider_error', requestId: 'fra1::abc' },
    ],
    [
      'an HTML page with 500',
      { kind: 'answer', status: 500, headers: html, body: '<html>' },
      { code: 'provider_error', requestId: 'fra1::abc' },
    ],
    [
      'an unreachable gateway',
      { kind: 'answer', status: 502, headers: html, body: '<html>' },
      { code: 'unavailable', retryable: true, requestId: 'fra1::abc' },
    ],
    ['maintenance', { kind: 'answer', status: 503, body: '{}' }, { code: 'unavailable', retryable: true }],
    [
      'an unexpected response',
      { kind: 'answer', status: 200, headers: { 'content-type': 'application/json' }, body: '{"sandbox":1}' },
      { code: 'provider_error' },
    ],
    ['a lost connection', { kind: 'cut-before' }, { code: 'unavailable', retryable: true }],
    ['half a response', { kind: 'cut-at', bytes: 40 }, { code: 'unavailable' }],
  ]
  it.each(answers)('create: %s', async (_, fault, seen) => {
    proxy.rules({ on: /^POST \/v3\/sandboxes/, fault, times: 10 })
    let asked = 0
    const counting: typeof fetch = (url, init) => {
      if (String(url).includes('/v3/')) asked += 1
      return fetch(url, init)
    }
    expect(await failure(provider({ fetch: counting }).create())).toMatchObject({
      provider: 'vercel',
      ...seen,
    })
    // One request: the SDK alone would have made three.
    expect(asked).toBe(1)
    expect(await left()).toBe(0)
  })

  it('silence is a timeout; what was created meanwhile is removed', async () => {
    proxy.rules({ on: /^POST \/v3/, fault: { kind: 'silence' } })
    expect(await failure(provider({ requestTimeoutMs: 300 }).create())).toMatchObject({
      code: 'timeout',
      retryable: true,
    })
    proxy.rules({ on: /^POST \/v3/, fault: { kind: 'cut-after' } })
    expect(await failure(provider().create({ name: 'lost' }))).toMatchObject({ code: 'unavailable' })
    expect(await left()).toBe(0)
  })

  it('a failed create does not affect another caller’s sandbox of that name', async () => {
    const first = await provider().create({ name: 'theirs' })
    proxy.rules({ on: /^POST \/v3/, fault: { kind: 'answer', status: 500, body: '{}' } })
    expect(await failure(provider().create({ name: 'theirs' }))).toMatchObject({ code: 'provider_error' })
    expect(await failure(provider().create({ name: 'theirs' }))).toMatchObject({ code: 'conflict' })
    expect(await first.status()).toBe('running')
    await first.destroy()
  })

  it('missing or wrong credentials, in the vendor’s words or ours', async () => {
    expect(await failure(provider({ token: 'sk-wrong' }).list())).toMatchObject({ code: 'unauthenticated' })
    expect([await provider({ token: 'sk-wrong' }).healthCheck(), await provider().healthCheck()]).toEqual([
      false,
      true,
    ])
  })

  describe('in a sandbox', () => {
    const make = (options = {}) => provider(options).create({ lifetimeMs: 600_000 })
    const once = (file: string) => ({
      cmd: 'sh',
      args: ['-c', 'echo ran >>"$1"; echo out; echo end', 'sh', file],
    })

    it.each<[string, Fault]>([
      ['gets a 500', { kind: 'answer', status: 500, body: '{}' }],
      ['is cut off', { kind: 'cut-before' }],
      ['succeeds, but loses its response', { kind: 'cut-after' }],
      ['gets half a response', { kind: 'cut-at', bytes: 20 }],
      ['gets an HTML page', { kind: 'answer', status: 200, headers: html, body: '<html>' }],
    ])('a command whose start %s never runs twice', async (_, fault) => {
      const sandbox = await make()
      const file = `ran-${randomUUID()}`
      proxy.rules({ on: /^POST .*\/cmd$/, fault })
      const error = await failure(sandbox.runCommand(once(file)))
      expect(['unavailable', 'provider_error', 'connection_lost']).toContain(error.code)
      proxy.rules()
      const times = (await sandbox.files.exists(file)) ? String(await sandbox.readFile(file)) : ''
      expect(['', 'ran\n']).toContain(times)
      expect((await sandbox.runCommand({ cmd: 'echo', args: ['on'] })).stdout).toBe('on\n')
      await sandbox.destroy()
    })

    it('a start that the network repeats is still one start', async () => {
      const sandbox = await make()
      proxy.rules({ on: /^POST .*\/cmd$/, fault: { kind: 'duplicate' } })
      // If our response belongs to the second start, it does not know where the output of the first is, and ends it.
      const answer = await sandbox.runCommand(once('ran')).catch((error: unknown) => error)
      expect(answer).toMatchObject(
        SandboxError.is(answer) ? { code: 'connection_lost' } : { stdout: 'out\nend\n' },
      )
      proxy.rules()
      const times = (await sandbox.files.exists('ran')) ? String(await sandbox.readFile('ran')) : ''
      expect(SandboxError.is(answer) ? ['', 'ran\n'] : ['ran\n']).toContain(times)
      await sandbox.destroy()
    })

    it('output resumes after a cut log, without loss or repetition', async () => {
      const sandbox = await make()
      const lines = Array.from({ length: 400 }, (_, line) => `line ${line}\n`).join('')
      const args = [
        '-c',
        'i=0; while [ $i -lt 400 ]; do echo "line $i"; i=$((i+1)); [ $((i % 100)) != 0 ] || sleep 0.2; done; exit 5',
      ]
      proxy.rules(
        { on: /\/logs$/, fault: { kind: 'cut-at', bytes: 300 } },
        { on: /\/logs$/, fault: { kind: 'cut-at', bytes: 1500 } },
        { on: /\/logs$/, fault: { kind: 'delay', ms: 200 } },
      )
      const result = await sandbox.runCommand({ cmd: 'sh', args })
      expect([result.stdout, result.exitCode, result.truncated]).toEqual([lines, 5, false])
      await sandbox.destroy()
    })

    it('a log that always breaks is connection_lost, and the process can be found again', async () => {
      const sandbox = await make()
      const process = await sandbox.spawn({ cmd: 'sh', args: ['-c', 'echo one; sleep 1000'], detached: true })
      proxy.rules({ on: /\/logs$/, fault: { kind: 'cut-at', bytes: 10 }, times: 100 })
      const error = await failure(process.wait())
      expect(['connection_lost', 'unavailable', 'provider_error']).toContain(error.code)
      proxy.rules()
      expect((await process.status()).running).toBe(true)
      await process.kill('SIGKILL')
      expect(await process.wait()).toMatchObject({ stdout: 'one\n', signal: 'SIGKILL' })
      // Reads the output again after the end: two attempts break, the third is complete.
      proxy.rules({ on: /\/logs$/, fault: { kind: 'cut-at', bytes: 30 }, times: 2 })
      expect(await process.wait()).toMatchObject({ stdout: 'one\n', signal: 'SIGKILL' })
      expect(proxy.count(/\/logs$/)).toBe(3)
      proxy.rules()
      await sandbox.destroy()
    })

    it('a silent log is detected when its command has ended', async () => {
      const sandbox = await make({ silenceMs: 300 })
      const process = await sandbox.spawn({
        cmd: 'sh',
        args: ['-c', 'echo one; sleep 1; echo two'],
        detached: true,
      })
      proxy.rules({ on: /\/logs$/, fault: { kind: 'stall-at', bytes: 60 } })
      expect((await process.wait()).stdout).toBe('one\ntwo\n')
      await sandbox.destroy()
    })

    it('a corrupted log is an error, not output', async () => {
      const sandbox = await make()
      proxy.rules({ on: /\/logs$/, fault: { kind: 'corrupt', from: 'stdout', to: 'stdxut' }, times: 100 })
      expect(await failure(sandbox.runCommand({ cmd: 'echo', args: ['x'] }))).toMatchObject({
        provider: 'vercel',
      })
      proxy.rules()
      await sandbox.destroy()
    })

    it('files: a partial download is an error; a failed upload keeps the old content and leaves nothing else', async () => {
      const sandbox = await make()
      await sandbox.files.writeFile('dir/file', 'x'.repeat(200_000))
      proxy.rules({ on: /\/fs\/read/, fault: { kind: 'cut-at', bytes: 1000 } })
      expect((await failure(sandbox.readFile('dir/file'))).code).toMatch(
        /unavailable|connection_lost|provider_error/,
      )
      proxy.rules({ on: /\/fs\/write/, fault: { kind: 'answer', status: 500, body: '{}' } })
      await failure(sandbox.files.writeFile('dir/file', 'new'))
      proxy.rules()
      expect((await sandbox.readFile('dir/file')).byteLength).toBe(200_000)
      expect(await sandbox.files.readdir('dir')).toEqual(['file'])
      await sandbox.destroy()
    })

    const broken: Fault = { kind: 'answer', status: 500, body: '{}' }
    const sorted = (copies: ReadonlyArray<unknown>) => ({
      good: copies.filter((copy) => !(copy instanceof Error)) as Array<{ destroy(): Promise<boolean> }>,
      failed: copies.filter((copy) => SandboxError.is(copy)),
    })

    it('a failed fork is an error beside the successful copies', async () => {
      const sandbox = await make()
      proxy.rules({ on: /\/fork$/, fault: broken }, { on: /^DELETE/, fault: broken, times: 10 })
      const { good, failed } = sorted(await sandbox.fork({ count: 2 }))
      proxy.rules()
      expect([good.length, failed.map(({ code }) => code)]).toEqual([1, ['provider_error']])
      for (const one of [...good, sandbox]) await one.destroy()
      expect(await left()).toBe(0)
    })

    it('a fork whose response is lost is removed; if that fails too, it is named', async () => {
      const sandbox = await make()
      proxy.rules({ on: /\/fork$/, fault: { kind: 'cut-after' } }, { on: /^DELETE/, fault: broken })
      const first = sorted(await sandbox.fork({ count: 2 }))
      expect([first.good.length, first.failed.map(({ details }) => details.left)]).toEqual([1, [undefined]])
      expect(await left()).toBe(2)
      proxy.rules(
        { on: /\/fork$/, fault: { kind: 'cut-after' } },
        { on: /^DELETE/, fault: broken, times: 10 },
      )
      const second = sorted(await sandbox.fork({ count: 2 }))
      proxy.rules()
      expect(second.good).toHaveLength(1)
      const [error] = second.failed
      expect(error).toMatchObject({ code: 'unavailable', details: { left: expect.stringMatching(/^sk-/) } })
      expect(error!.hint).toContain(error!.details.left)
      expect(await provider().destroy(error!.details.left as string)).toBe(true)
      for (const one of [...first.good, ...second.good, sandbox]) await one.destroy()
      expect(await left()).toBe(0)
    })

    it('a create whose response is lost, and that cannot be removed, is named', async () => {
      proxy.rules(
        { on: /^POST \/v3/, fault: { kind: 'cut-after' } },
        { on: /^DELETE/, fault: broken, times: 2 },
      )
      const error = await failure(provider().create())
      expect(error).toMatchObject({ code: 'unavailable', details: { left: expect.stringMatching(/^sk-/) } })
      expect(await provider().destroy(error.details.left as string)).toBe(true)
      expect(await left()).toBe(0)
    })

    it('cancelled forks leave nothing', async () => {
      const controller = new AbortController()
      const cancelling: typeof fetch = (url, init) => {
        if (String(url).includes('/fork')) controller.abort()
        return fetch(url, init)
      }
      const sandbox = await make({ fetch: cancelling })
      const error = await failure(sandbox.fork({ count: 2, signal: controller.signal }))
      expect(error.code).toBe('aborted')
      await expect.poll(left).toBe(1)
      await sandbox.destroy()
    })

    it('a sandbox deleted by another client is not_found; a stopped one is not_running', async () => {
      const [gone, stopped] = [await make(), await make()]
      const id = (sandbox: { sandboxId: string }) =>
        sandbox.sandboxId.slice(0, sandbox.sandboxId.indexOf('.'))
      const { body } = await daemon.call('GET', `/v1/sessions?name=${id(gone)}`)
      await daemon.call('DELETE', `/v1/sessions/${body.sessions[0].id}`)
      expect(await failure(gone.runCommand({ cmd: 'true' }))).toMatchObject({ code: 'not_found' })
      const other = await daemon.call('GET', `/v1/sessions?name=${id(stopped)}`)
      await daemon.call('POST', `/v1/sessions/${other.body.sessions[0].id}/stop`, {})
      expect(await failure(stopped.files.list())).toMatchObject({ code: 'not_running' })
      expect(await stopped.status()).toBe('stopped')
      await stopped.destroy()
    })
  })

  it('nothing is left at the end', async () => {
    expect(await left()).toBe(0)
  })
})
