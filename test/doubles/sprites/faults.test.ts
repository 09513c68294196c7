import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { SandboxError, type SandboxHandle } from '@sandkasten/sdk'
import { SpritesProvider } from '@sandkasten/sdk/sprites'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { reasonToSkip } from '../../../packages/engine/src/isolators/oci/testing/bench.ts'
import { EngineProvider } from '../../../packages/engine/src/provider/engine-provider.ts'
import { type Fault, FaultProxy } from '../../fronts/fault-proxy.ts'
import { SpritesDouble } from './double.ts'

const missing = await reasonToSkip()
const token = 'sprites-test-0123456789abcdef'
const html = '<!doctype html><title>Bad gateway</title>'
const page = (status: number): Fault => ({ kind: 'answer', status, body: html })
const json = (status: number, body: object, headers: Record<string, string> = {}): Fault => ({
  kind: 'answer',
  status,
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify(body),
})
const create = /^POST \/v1\/sprites$/
const get = /^GET \/v1\/sprites\/[^/]+$/
const exec = /^UPGRADE \/v1\/sprites\/[^/]+\/exec$/
/** Also the request that asks for the reason. */
const anyExec = /^(UPGRADE|POST) \/v1\/sprites\/[^/]+\/exec$/

/** Every kind of fault for every operation. Each happens once, and a rate limit also for the question after it. */
const faults = {
  delay: { kind: 'delay', ms: 300 },
  cut: { kind: 'cut-at', bytes: 20 },
  duplicate: { kind: 'duplicate' },
  corrupt: { kind: 'corrupt' },
  html: page(200),
  '5xx': page(503),
  silence: { kind: 'silence' },
  'rate limit': json(
    429,
    { error: 'sprite_creation_rate_limited', message: 'too many' },
    { 'retry-after': '7' },
  ),
} satisfies Record<string, Fault>
type Kind = keyof typeof faults
const kinds = Object.keys(faults) as Kind[]
const operations = ['create', 'command', 'stream', 'upload', 'download'] as const
type Operation = (typeof operations)[number]

const limited = 'rate_limited, retry after 7000'
/** A response that arrives twice. */
const twice = 'provider_error|connection_lost'
/** In the order of the kinds; `a|b` if it depends on timing. */
const seen: Record<Operation, readonly string[]> = {
  create: [
    'ok',
    'connection_lost',
    'ok',
    'provider_error',
    'provider_error',
    'unavailable',
    'timeout',
    limited,
  ],
  command: [
    'ok',
    'connection_lost',
    twice,
    'connection_lost',
    'unavailable',
    'unavailable',
    'timeout',
    limited,
  ],
  // A page of output can be asked for again.
  stream: ['ok', 'ok', 'ok', 'ok', 'ok', 'ok', 'ok', limited],
  upload: [
    'ok',
    'connection_lost',
    twice,
    'connection_lost',
    'unavailable',
    'unavailable',
    'timeout',
    limited,
  ],
  download: [
    'ok',
    'connection_lost',
    twice,
    'connection_lost',
    'unavailable',
    'unavailable',
    'timeout',
    limited,
  ],
}

const lines = Array.from({ length: 300 }, (_, line) => `line ${line}\n`).join('')
const print = 'i=0; while [ $i -lt 300 ]; do echo "line $i"; i=$((i+1)); done'
const large = Buffer.from(Array.from({ length: 200_000 }, (_, at) => `${at}`).join(' '))

/** What a user sees if the vendor misbehaves: one code, nothing done twice, nothing left. */
describe.skipIf(missing !== undefined)(
  `the Sprites provider under faults${missing ? ` (${missing})` : ''}`,
  () => {
    let root: string
    let engine: EngineProvider
    let double: SpritesDouble
    let proxy: FaultProxy
    let sandbox: SandboxHandle
    const provider = (options: { token?: string; requestTimeoutMs?: number } = {}) =>
      new SpritesProvider({ token, baseUrl: proxy.url, requestTimeoutMs: 30_000, env: {}, ...options })
    const failure = async (work: Promise<unknown>): Promise<SandboxError> => {
      const error = await work.then(
        () => undefined,
        (caught: unknown) => caught,
      )
      if (!SandboxError.is(error)) throw new Error(`It did not fail as it should: ${String(error)}`)
      if (error.code !== 'aborted') expect(error.provider).toBe('sprites')
      expect(JSON.stringify(error) + error.message).not.toContain(token)
      return error
    }
    /** `ok`, or the code of the error. */
    const outcome = (work: Promise<unknown>) => {
      let error: unknown
      return work.then(
        () => 'ok',
        async (caught: unknown) => {
          error = caught
          const { code, details } = await failure(Promise.reject(error))
          return details.retryAfterMs === undefined ? code : `${code}, retry after ${details.retryAfterMs}`
        },
      )
    }
    beforeAll(async () => {
      root = await mkdtemp(path.join(tmpdir(), 'sandkasten-sprites-'))
      engine = new EngineProvider({ isolator: 'oci', root })
      double = await SpritesDouble.start({ engine, token, limit: 6 })
      proxy = await FaultProxy.start()
      proxy.target = double.url
      sandbox = (await provider().create()) as never
    })
    beforeEach(() => proxy.rules())
    afterAll(async () => {
      await proxy?.stop()
      await double?.stop()
      await engine?.close()
      if (root) await rm(root, { recursive: true, force: true })
    })

    describe('each kind', () => {
      const done: Record<Operation, (own: SandboxHandle, patient: number) => Promise<string>> = {
        async create(_, requestTimeoutMs) {
          const before = double.sprites.size
          proxy.rules(...rules)
          let made: { destroy(): Promise<boolean> } | undefined
          const result = await outcome(
            provider({ requestTimeoutMs })
              .create()
              .then((created) => {
                made = created
              }),
          )
          const left = double.sprites.size - before
          await made?.destroy()
          return left === (result === 'ok' ? 1 : 0) ? result : `${result}, ${left} of them`
        },
        async command(own) {
          const file = `/tmp/ran-${Math.random().toString(36).slice(2)}`
          const args = ['-c', `echo ran >> ${file}; echo out; exit 3`]
          proxy.rules(...rules)
          const result = await outcome(
            own
              .runCommand({ cmd: 'sh', args, signal: AbortSignal.timeout(20_000) })
              .then(({ exitCode, stdout }) => expect([exitCode, stdout]).toEqual([3, 'out\n'])),
          )
          proxy.rules()
          const ran = (await sandbox.runCommand({ cmd: 'sh', args: ['-c', `cat ${file} || true`] })).stdout
          return ran === 'ran\nran\n' ? `${result}, twice` : result
        },
        async stream(own) {
          const { execId } = await own.spawn({ cmd: 'sh', args: ['-c', print], detached: true })
          const process = await own.getProcess(execId)
          proxy.rules(...rules)
          let text = ''
          const result = await outcome(
            (async () => {
              for await (const event of process.output({ signal: AbortSignal.timeout(20_000) }))
                if (event.type === 'stdout') text += Buffer.from(event.data).toString()
            })(),
          )
          expect(result === 'ok' ? text === lines : lines.startsWith(text), text.slice(-100)).toBe(true)
          return result
        },
        async upload(own) {
          await sandbox.files.writeFile('up', 'old')
          proxy.rules(...rules)
          const result = await outcome(
            own.files.writeFile('up', large, { signal: AbortSignal.timeout(20_000) }),
          )
          proxy.rules()
          const now = await sandbox.files.readFile('up')
          expect(result === 'ok' ? large.equals(now) : large.equals(now) || String(now) === 'old').toBe(true)
          const others = async () =>
            (await sandbox.files.readdir('.')).filter((name) => name.startsWith('.sandkasten'))
          await expect.poll(others).toEqual([])
          return result
        },
        async download(own) {
          await sandbox.files.writeFile('down', large)
          proxy.rules(...rules)
          let got: Buffer | undefined
          const result = await outcome(
            own.files.readFile('down', { signal: AbortSignal.timeout(20_000) }).then((read) => {
              got = Buffer.from(read as Uint8Array)
            }),
          )
          return result === 'ok' && !large.equals(got!) ? 'other bytes' : result
        },
      }
      let rules: Parameters<FaultProxy['rules']> = []

      it.each(operations.flatMap((operation) => kinds.map((kind) => [operation, kind] as const)))(
        '%s: %s',
        async (operation, kind) => {
          const patient = kind === 'silence' ? 2_500 : 30_000
          const own = (await provider({ requestTimeoutMs: patient }).get(
            sandbox.id,
          )) as unknown as SandboxHandle
          const on = operation === 'create' ? create : kind === 'rate limit' ? anyExec : exec
          rules = [{ on, fault: faults[kind], times: on === anyExec ? 2 : 1 }]
          const result = await done[operation](own, patient)
          expect(seen[operation][kinds.indexOf(kind)]!.split('|')).toContain(result)
        },
      )
    })

    describe('of a create', () => {
      const table: Array<[name: string, fault: Fault, code: string]> = [
        ['500', json(500, { error: 'broken' }), 'provider_error'],
        ['504', page(504), 'timeout'],
        ['expired credentials', json(401, { error: 'unauthorized' }), 'unauthenticated'],
        ['403', json(403, { error: 'forbidden' }), 'forbidden'],
        ['an exceeded plan', json(402, { error: 'payment required' }), 'quota_exceeded'],
        ['an invalid request', json(400, { errors: ['invalid'] }), 'invalid_argument'],
        ['no connection', { kind: 'cut-before' }, 'connection_lost'],
        ['a lost response', { kind: 'cut-after' }, 'connection_lost'],
        ['half a response', { kind: 'half' }, 'connection_lost'],
        ['a response that is null', json(201, null as never), 'provider_error'],
        ['another sprite', json(201, { name: 'sk-other', id: '7', labels: [] }), 'provider_error'],
      ]
      it.each(table)('%s', async (_, fault, code) => {
        const before = double.sprites.size
        proxy.rules({ on: create, fault })
        expect((await failure(provider().create())).code).toBe(code)
        expect(proxy.count(create)).toBeLessThanOrEqual(1)
        expect(double.sprites.size).toBe(before)
      })

      it('removes what was created, with a second try if needed', async () => {
        const before = double.sprites.size
        proxy.rules({ on: create, fault: { kind: 'cut-after' } }, { on: get, fault: page(500) })
        const error = await failure(provider().create())
        expect([error.code, error.details.left, double.sprites.size]).toEqual([
          'connection_lost',
          undefined,
          before,
        ])
      })

      it('names what was created and cannot be removed', async () => {
        proxy.rules({ on: create, fault: { kind: 'cut-after' } }, { on: get, fault: page(500), times: 2 })
        const error = await failure(provider().create())
        expect(error).toMatchObject({
          code: 'connection_lost',
          details: { left: expect.stringMatching(/^sk-[a-z2-7]{16}$/) },
          cause: { errors: [{ code: 'connection_lost' }, { code: 'provider_error' }] },
        })
        expect(error.hint).toContain(error.details.left)
        expect(await provider().destroy(String(error.details.left))).toBe(true)
      })

      it('does not leave a sprite whose inside does not respond', async () => {
        const before = double.sprites.size
        proxy.rules({ on: exec, fault: page(500) })
        expect((await failure(provider().create())).code).toBe('unavailable')
        expect(double.sprites.size).toBe(before)
      })

      it('the limit of the organization is quota_exceeded', async () => {
        const all = []
        while (double.sprites.size < 6) all.push(await provider().create())
        expect((await failure(provider().create())).code).toBe('quota_exceeded')
        for (const one of all) await one.destroy()
      })

      it('an invalid token', async () => {
        const wrong = provider({ token: 'another-token' })
        expect((await failure(wrong.create())).code).toBe('unauthenticated')
        expect((await failure(wrong.get(sandbox.id))).code).toBe('unauthenticated')
        expect([await wrong.healthCheck(), await provider().healthCheck()]).toEqual([false, true])
      })
    })

    describe('of a sandbox', () => {
      it('credentials that expire are reported by the next command, file and page of output', async () => {
        const expired = (fault: Fault) => proxy.rules({ on: /./, fault, times: 100 })
        const process = await sandbox.spawn({ cmd: 'sleep', args: ['1000'], detached: true })
        expired(json(401, { error: 'unauthorized' }))
        expect((await failure(sandbox.runCommand({ cmd: 'true' }))).code).toBe('unauthenticated')
        expect((await failure(sandbox.files.readFile('x'))).code).toBe('unauthenticated')
        expect((await failure(process.wait())).code).toBe('unauthenticated')
        proxy.rules()
        expect(await process.kill('SIGKILL')).toBe(true)
      })

      it('an unknown state is unknown, and the sandbox stays usable', async () => {
        const sprite = [...double.sprites.values()].find(({ id }) => sandbox.id.endsWith(id))!
        sprite.status = 'migrating'
        expect(await sandbox.info()).toMatchObject({ status: 'unknown', rawStatus: 'migrating' })
        expect((await sandbox.runCommand({ cmd: 'echo', args: ['on'] })).stdout).toBe('on\n')
        sprite.status = 'cold'
        expect(await sandbox.info()).toMatchObject({ status: 'running', rawStatus: 'cold' })
      })

      it('a restart ends programs with interrupted, and the handle goes on with the same disk', async () => {
        const own = (await provider().create()) as unknown as SandboxHandle
        await own.files.writeFile('kept', 'yes')
        const process = await own.spawn({ cmd: 'sleep', args: ['1000'], detached: true })
        await double.restart(own.sandboxId)
        expect((await failure(process.wait())).code).toBe('interrupted')
        expect((await own.runCommand({ cmd: 'cat', args: ['kept'] })).stdout).toBe('yes')
        await own.destroy()
      })

      it('a command works although the agent and the mark in the sandbox were deleted', async () => {
        const run = () => sandbox.runCommand({ cmd: 'echo', args: ['on'] })
        await run()
        await sandbox.runCommand({ cmd: 'sh', args: ['-c', 'rm /tmp/.sandkasten/bin/agent-*'] })
        expect((await run()).stdout).toBe('on\n')
        await sandbox.runCommand({ cmd: 'sh', args: ['-c', 'rm /tmp/.sandkasten/is-*'] })
        expect((await run()).stdout).toBe('on\n')
      })

      it('a handle never reaches another sprite with the same name', async () => {
        const first = (await provider().create({ name: 'reused' })) as unknown as SandboxHandle
        await first.destroy()
        const second = (await provider().create({ name: 'reused' })) as unknown as SandboxHandle
        expect(second.id).not.toBe(first.id)
        const touch = { cmd: 'touch', args: ['/tmp/touched'] }
        expect((await failure(first.runCommand(touch))).code).toBe('not_found')
        expect((await failure(first.files.writeFile('/tmp/touched', ''))).code).toBe('not_found')
        expect(await first.destroy()).toBe(false)
        expect(await second.files.exists('/tmp/touched')).toBe(false)
        await second.destroy()
      })

      it('neither secrets nor commands are in the address of a request', async () => {
        const urls: string[] = []
        double.onRequest = (url) => urls.push(url)
        const env = { SECRET: 'hidden-value' }
        await sandbox.runCommand({ cmd: 'sh', args: ['-c', ': hidden-argument'], env, stdin: 'hidden-input' })
        await sandbox.files.writeFile('hidden-name', 'hidden-content')
        double.onRequest = undefined
        expect(urls.length).toBeGreaterThan(1)
        expect(urls.join('\n')).not.toContain('hidden')
      })

      it('a file that is replaced while it is read is an error, never a mixture', async () => {
        await sandbox.files.writeFile('mixed', Buffer.alloc(9_000_000, 'a'))
        const stream = await sandbox.files.readStream('mixed')
        const reader = stream.getReader()
        await reader.read()
        await sandbox.files.writeFile('mixed', Buffer.alloc(9_000_000, 'b'))
        const rest = async () => {
          while (!(await reader.read()).done);
        }
        expect((await failure(rest())).code).toBe('conflict')
      })
    })

    it('examples/fronts/sprites-provider.ts prints its .out file, ends by itself, and leaves nothing', async () => {
      const before = double.sprites.size
      const file = path.resolve(import.meta.dirname, '../../../examples/fronts/sprites-provider')
      const { stdout } = await promisify(execFile)(
        process.execPath,
        ['--conditions=sandkasten-source', `${file}.ts`],
        {
          env: { PATH: process.env.PATH, SPRITES_TOKEN: token, SPRITES_API_URL: double.url },
          timeout: 50_000,
        },
      )
      expect([stdout, double.sprites.size]).toEqual([readFileSync(`${file}.out`, 'utf8'), before])
    })

    it('an invalid SDK is reported with the install command', async () => {
      for (const sdk of [{}, { SpritesClient: class Old {} }, () => ({ default: {} })]) {
        const error = await failure(new SpritesProvider({ token: 'x', env: {}, sdk }).create())
        const hint = expect.stringContaining('npm install @fly/sprites@0')
        expect([error.code, error.hint]).toEqual(['sdk_missing', hint])
      }
      expect(() => new SpritesProvider({ token: 'x', baseUrl: 'localhost:1' })).toThrow(/baseUrl/)
    })
  },
)
