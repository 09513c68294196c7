import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { EngineProvider } from '@sandkasten/engine'
import { SandboxError } from '@sandkasten/sdk'
import { HopxProvider } from '@sandkasten/sdk/hopx'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../../packages/daemon/src/testing/isolator.ts'
import { shareHostLayers } from '../../../packages/engine/src/images/testing/shared-host.ts'
import { removeGateway } from '../../../packages/engine/src/provider/test-helper.ts'
import { type Fault, FaultProxy, type FaultRule } from '../../fronts/fault-proxy.ts'
import { HopxDouble } from './index.ts'

type Provider = HopxProvider
type Handle = Awaited<ReturnType<Provider['create']>>

const missing = await isolationMissing()
const create = /^POST \/v1\/sandboxes$/
const list = /^GET \/v1\/sandboxes$/
const look = /^GET \/v1\/sandboxes\/[^/]+$/
const remove = /^DELETE \/v1\/sandboxes\/[^/]+$/
const renew = /^POST .*\/token\/refresh$/
const command = /^POST .*\/commands\/run$/
const upload = /^POST .*\/files\/write$/
const answer = (status: number, body: object | string = '<html>Sign in</html>', headers = {}): Fault => ({
  kind: 'answer',
  status,
  body: typeof body === 'string' ? body : JSON.stringify(body),
  headers: { 'x-request-id': `req-${status}`, ...headers },
})

/** Every kind of fault for every operation. Each happens once. */
const faults = {
  delay: { kind: 'delay', ms: 300 },
  cut: { kind: 'cut-at', bytes: 20 },
  duplicate: { kind: 'duplicate' },
  corrupt: { kind: 'corrupt' },
  html: answer(200),
  '5xx': answer(503),
  limit: answer(429, {}, { 'retry-after': '7' }),
  silence: { kind: 'silence' },
} satisfies Record<string, Fault>
type Kind = keyof typeof faults
const kinds = Object.keys(faults) as Kind[]

const garbled = 'provider_error'
/** For each operation its request, and the outcome for the user in the order of the kinds. */
const operations = {
  create: {
    on: create,
    seen: [
      'ok',
      'connection_lost',
      'ok, 2 of them',
      garbled,
      garbled,
      'unavailable',
      'rate_limited',
      'timeout',
    ],
  },
  command: {
    on: command,
    seen: ['ok', 'connection_lost', 'ok', garbled, garbled, 'unavailable', 'rate_limited', 'timeout'],
  },
  // A page of output can be read again.
  stream: { on: command, seen: ['ok', 'ok', 'ok', 'ok', 'ok', 'ok', 'rate_limited', 'ok'] },
  // The response is not checked but what has arrived.
  upload: {
    on: upload,
    seen: ['ok', 'connection_lost', 'ok', garbled, garbled, 'unavailable', 'rate_limited', 'timeout'],
  },
  download: {
    on: command,
    seen: ['ok', 'connection_lost', 'ok', garbled, garbled, 'unavailable', 'rate_limited', 'timeout'],
  },
} as const
type Operation = keyof typeof operations

const lines = Array.from({ length: 300 }, (_, line) => `line ${line}\n`).join('')
const large = Buffer.from(Array.from({ length: 200_000 }, (_, at) => `${at}`).join(' '))
const print = 'i=0; while [ $i -lt 300 ]; do echo "line $i"; i=$((i+1)); done'

describe.skipIf(missing !== undefined)(`faults under hopx${missing ? ` (${missing})` : ''}`, () => {
  let root: string
  let engine: EngineProvider
  let double: HopxDouble
  let proxy: FaultProxy
  let sandbox: Handle

  beforeAll(async () => {
    root = await mkdtemp(path.join(tmpdir(), 'sandkasten-hopx-faults-'))
    await shareHostLayers(path.join(root, 'images'))
    engine = new EngineProvider({ isolator: 'oci', root })
    double = await HopxDouble.start({ engine, hosts: 'paths' })
    proxy = await FaultProxy.start()
    proxy.target = double.url
    sandbox = await provider().create({})
  })
  afterEach(() => proxy?.rules())
  afterAll(async () => {
    await proxy?.stop()
    await double?.stop()
    await engine?.close()
    if (root) await removeGateway(root)
    if (root) await rm(root, { recursive: true, force: true })
  })

  const provider = (options: { apiKey?: string; requestTimeoutMs?: number; startTimeoutMs?: number } = {}) =>
    new HopxProvider({ apiKey: double.apiKey, apiUrl: proxy.url, requestTimeoutMs: 20_000, ...options })
  const left = () => double.sandboxes.all.filter(({ id }) => id !== sandbox.sandboxId).length
  const failure = async (work: Promise<unknown>): Promise<SandboxError> => {
    const error = await work.then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    expect(SandboxError.is(error), String(error)).toBe(true)
    const known = error as SandboxError
    const said = `${JSON.stringify(known)}${known.message}${known.stack}${(known.cause as Error)?.stack}`
    expect(said).not.toContain(double.apiKey)
    for (const { tokens } of double.sandboxes.all)
      for (const token of tokens.keys()) expect(said).not.toContain(token)
    return known
  }
  /** `ok`, or the code of the error. */
  const outcome = async (work: Promise<unknown>): Promise<string> => {
    const settled = work.then(() => 'ok')
    const ok = await settled.catch(() => undefined)
    if (ok) return ok
    const error = await failure(work)
    expect(error.provider).toBe('hopx')
    if (error.code === 'rate_limited')
      expect([error.details.retryAfterMs, error.requestId]).toEqual([7000, 'req-429'])
    return error.code
  }

  const done: Record<Operation, (own: Handle, rule: FaultRule, provider: Provider) => Promise<string>> = {
    async create(_, rule, impatient) {
      proxy.rules(rule)
      let made: Handle | undefined
      const seen = await outcome(
        impatient.create({}).then((created) => {
          made = created
        }),
      )
      const count = left()
      await made?.destroy()
      await Promise.all(
        double.sandboxes.all
          .filter(({ id }) => id !== sandbox.sandboxId)
          .map((machine) => double.sandboxes.remove(machine)),
      )
      if (seen === 'ok') return count === 1 ? seen : `${seen}, ${count} of them`
      return count === 0 ? seen : `${seen}, left behind`
    },
    async command(own, rule) {
      const file = `/tmp/ran-${Math.random().toString(36).slice(2)}`
      proxy.rules(rule)
      const args = ['-c', `echo ran >> ${file}; echo out; exit 3`]
      const seen = await outcome(
        own
          .runCommand({ cmd: 'sh', args, signal: AbortSignal.timeout(10_000) })
          .then(({ exitCode, stdout }) => expect([exitCode, stdout]).toEqual([3, 'out\n'])),
      )
      proxy.rules()
      const ran = await sandbox.runCommand({ cmd: 'sh', args: ['-c', `cat ${file} || true`] })
      return ran.stdout === 'ran\nran\n' ? `${seen}, twice` : seen
    },
    async stream(own, rule) {
      const { execId } = await own.spawn({ cmd: 'sh', args: ['-c', print], detached: true })
      const process = await own.getProcess(execId)
      let text = ''
      const read = async () => {
        for await (const event of process.output({ signal: AbortSignal.timeout(15_000) }))
          if (event.type === 'stdout') text += Buffer.from(event.data).toString()
      }
      proxy.rules(rule)
      const seen = await outcome(read())
      // Nothing is missing, changed or repeated, whatever the end.
      expect(seen === 'ok' ? text === lines : lines.startsWith(text), text.slice(-100)).toBe(true)
      return seen
    },
    async upload(own, rule) {
      await sandbox.files.writeFile('up', 'old')
      proxy.rules(rule)
      const seen = await outcome(own.files.writeFile('up', large, { signal: AbortSignal.timeout(10_000) }))
      proxy.rules()
      const now = await sandbox.files.readFile('up')
      expect(seen === 'ok' ? large.equals(now) : String(now) === 'old').toBe(true)
      const names = (await sandbox.files.readdir('.')).filter((name) => name !== 'up' && name !== 'down')
      expect(names).toEqual([])
      return seen
    },
    async download(own, rule) {
      await sandbox.files.writeFile('down', large)
      proxy.rules(rule)
      let got: Buffer | undefined
      const seen = await outcome(
        own.files.readFile('down', { signal: AbortSignal.timeout(10_000) }).then((read) => {
          got = Buffer.from(read as Uint8Array)
        }),
      )
      return seen === 'ok' && !large.equals(got!) ? 'other bytes' : seen
    },
  }

  const cases = (Object.keys(operations) as Operation[]).flatMap((operation) =>
    kinds.map((kind, at) => [operation, kind, operations[operation].seen[at]!] as const),
  )
  it.each(cases)('%s: %s is %s', async (operation, kind, expected) => {
    const requestTimeoutMs = kind === 'silence' ? 2_500 : 20_000
    const own = provider({ requestTimeoutMs })
    const handle = await own.get(sandbox.sandboxId)
    const rule = { on: operations[operation].on, fault: faults[kind] }
    expect(await done[operation](handle, rule, own)).toBe(expected)
  })

  const creates: Array<[string, Fault, string]> = [
    ['an expired key', answer(401, { code: 'UNAUTHORIZED', message: 'expired' }), 'unauthenticated'],
    ['a missing permission', answer(403), 'forbidden'],
    ['an exceeded quota', answer(402, { message: 'Upgrade your plan' }), 'quota_exceeded'],
    ['an unknown template', answer(404), 'not_found'],
    ['a server error', answer(500), 'provider_error'],
    ['a redirect', answer(302, '', { location: 'http://127.0.0.1:9/' }), 'provider_error'],
    ['a connection lost before the request', { kind: 'cut-before' }, 'connection_lost'],
    ['a connection lost after the request', { kind: 'cut-after' }, 'connection_lost'],
  ]
  it.each(creates)(
    'create: %s is one error of the table, after one request, and leaves nothing',
    async (_, fault, code) => {
      proxy.rules({ on: create, fault })
      const error = await failure(provider().create())
      expect([error.code, error.provider]).toEqual([code, 'hopx'])
      if (fault.kind === 'answer') expect(error.requestId).toBe(`req-${fault.status}`)
      expect([proxy.count(create) < 2, left()]).toEqual([true, 0])
    },
  )

  it('create: labels that do not fit are refused before any request', async () => {
    proxy.rules()
    const error = await failure(provider().create({ labels: { long: 'ü'.repeat(40_000) } }))
    expect([error.code, proxy.passed]).toEqual(['invalid_argument', []])
  })

  it('create: a credential that the vendor’s message repeats is hidden', async () => {
    proxy.rules({ on: create, fault: answer(401, { message: `${double.apiKey} is not valid` }) })
    expect((await failure(provider().create())).cause).toMatchObject({ message: '*** is not valid' })
  })

  it.each([401, 404, 409, 429, 500])('create: %i while it starts leaves nothing either', async (status) => {
    proxy.rules({ on: look, fault: answer(status) })
    const error = await failure(provider().create())
    expect([error.details.status ?? 404, error.details.left, left()]).toEqual([status, undefined, 0])
  })

  it('create: what could not be removed is named', async () => {
    proxy.rules({ on: create, fault: { kind: 'cut-after' } }, { on: list, fault: answer(503), times: 100 })
    expect((await failure(provider().create())).details.left).toMatch(/^the sandbox of create [a-z2-7]+$/)
    proxy.rules({ on: look, fault: answer(500) }, { on: remove, fault: answer(500), times: 100 })
    const { details, hint, cause } = await failure(provider().create())
    proxy.rules()
    const ids = double.sandboxes.all.map(({ id }) => id)
    expect([ids.includes(String(details.left)), hint.includes(String(details.left))]).toEqual([true, true])
    expect(cause).toBeInstanceOf(AggregateError)
    for (const { sandboxId } of await provider().list())
      if (sandboxId !== sandbox.sandboxId) await provider().destroy(sandboxId)
    expect(left()).toBe(0)
  })

  it('create: waits while the sandbox is being created, and only for `startTimeoutMs`', async () => {
    double.sandboxes.firstStatus = 'creating'
    try {
      const made = await provider().create()
      expect(await made.status()).toBe('running')
      await made.destroy()
      const still: Fault = { kind: 'corrupt', from: '"status":"running"', to: '"status":"creating"' }
      proxy.rules({ on: look, fault: still, times: 100 })
      expect((await failure(provider({ startTimeoutMs: 600 }).create())).code).toBe('timeout')
      expect(left()).toBe(0)
    } finally {
      double.sandboxes.firstStatus = 'running'
    }
  })

  it('create: a sandbox whose response was lost is found although it is still being created', async () => {
    double.sandboxes.firstStatus = 'creating'
    try {
      proxy.rules({ on: create, fault: { kind: 'cut-after' } })
      expect((await failure(provider().create())).code).toBe('connection_lost')
      expect(left()).toBe(0)
    } finally {
      double.sandboxes.firstStatus = 'running'
    }
  })

  it('an unknown state is reported as it is, and no call starts or ends anything', async () => {
    const odd: Fault = { kind: 'corrupt', from: '"status":"running"', to: '"status":"hibernating"' }
    proxy.rules({ on: look, fault: odd, times: 100 })
    expect(await sandbox.info()).toMatchObject({ status: 'unknown', rawStatus: 'hibernating' })
    const impatient = provider({ startTimeoutMs: 600 })
    const error = await failure(impatient.get(sandbox.sandboxId))
    expect([error.code, error.details.state]).toEqual(['timeout', 'hibernating'])
    expect((await failure(sandbox.getEndpoint(80))).code).toBe('not_running')
    proxy.rules()
    expect(await sandbox.status()).toBe('running')
  })

  it('an expired token is renewed once; an expired key then is unauthenticated', async () => {
    const machine = double.sandboxes.get(sandbox.sandboxId)!
    double.sandboxes.expireTokens(machine)
    expect((await sandbox.runCommand({ cmd: 'echo', args: ['on'] })).stdout).toBe('on\n')
    double.sandboxes.expireTokens(machine)
    proxy.rules({ on: renew, fault: answer(401), times: 100 })
    expect((await failure(sandbox.runCommand({ cmd: 'true' }))).code).toBe('unauthenticated')
    proxy.rules()
    expect(await provider({ apiKey: 'wrong' }).healthCheck()).toBe(false)
    expect((await failure(provider({ apiKey: 'wrong' }).list())).code).toBe('unauthenticated')
  })

  it('a program of a paused sandbox goes on: its reader waits, other calls are not_running', async () => {
    const own = await provider().create()
    const process = await own.spawn({ cmd: 'sh', args: ['-c', 'echo one; read go; echo two'], stdin: 'pipe' })
    const reading = process.wait()
    await own.pause()
    expect((await failure(own.runCommand({ cmd: 'true' }))).code).toBe('not_running')
    expect((await failure(own.files.readFile('x'))).code).toBe('not_running')
    await own.resume()
    await process.writeStdin('go\n')
    expect((await reading).stdout).toBe('one\ntwo\n')
    await own.destroy()
  })

  it('a sandbox that another client deleted is not_found in every call', async () => {
    const own = await provider().create()
    await double.sandboxes.remove(double.sandboxes.get(own.sandboxId)!)
    expect((await failure(own.runCommand({ cmd: 'true' }))).code).toBe('not_found')
    expect((await failure(own.files.readFile('x'))).code).toBe('not_found')
    expect((await failure(own.pause())).code).toBe('not_found')
    expect(await own.destroy()).toBe(false)
  })

  it('list() shows only our sandboxes, whatever a variable says', async () => {
    const foreign = async (mark: Record<string, string>) =>
      double.sandboxes.create({
        template: 'code-interpreter',
        internetAccess: true,
        timeoutSeconds: undefined,
        env: mark,
      })
    const machines = await Promise.all([
      foreign({}),
      foreign({ SANDKASTEN_MARK: 'no JSON' }),
      foreign({ SANDKASTEN_MARK: '{"createId":1,"labels":{}}' }),
      foreign({ SANDKASTEN_MARK: '{"createId":"x","labels":{"a":{}}}' }),
      foreign({ SANDKASTEN_MARK: `{"createId":"x","labels":{"a":"${'a'.repeat(70_000)}"}}` }),
    ])
    const ids = (await provider().list()).map(({ sandboxId }) => sandboxId)
    expect(ids).toEqual([sandbox.sandboxId])
    await Promise.all(machines.map((machine) => double.sandboxes.remove(machine)))
  })
})
