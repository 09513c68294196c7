import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../../packages/daemon/src/testing/isolator.ts'
import { remoteOf } from '../world/remote.ts'
import { openWorld, type World, worldMissing } from '../world/world.ts'
import type { FrontMethods } from './front-worker.ts'

const missing = worldMissing() ?? (await isolationMissing())

/** Policies of the vendors' own SDKs, on real sandboxes with a real gateway and real TLS servers. */
describe.skipIf(missing)(`policies of fronts are enforced${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let world: World
  let worker: ChildProcess
  let fronts: FrontMethods
  beforeAll(async () => {
    world = await openWorld({ sniff: false })
    const file = join(import.meta.dirname, 'front-worker.ts')
    const runFolder = `/run/skt-${randomBytes(4).toString('hex')}`
    worker = world.start('host', [process.execPath, '--conditions=sandkasten-source', file, runFolder])
    fronts = await remoteOf<FrontMethods>(worker)
  }, 180_000)
  afterAll(async () => {
    if (worker?.exitCode === null) {
      const exited = once(worker, 'exit')
      worker.stdin!.end()
      await exited
    }
    await world?.[Symbol.asyncDispose]()
  }, 60_000)

  /** Prints the answer of each URL, or `refused`. */
  const visit = (...urls: string[]) =>
    urls.map((url) => `curl -sS -m 10 ${url} || echo refused; echo`).join('\n')
  const lines = (output: string) => output.split('\n').filter((line) => line.trim() !== '')
  const token = () => `sk-${randomBytes(12).toString('hex')}`
  /** The headers of the one request that reached this path. */
  const received = (path: string) => world.records.find(({ data }) => data.includes(` ${path}\n`))?.headers

  it('E2B: rules with credentials, short literals, and names of media types', {
    timeout: 60_000,
  }, async () => {
    const secret = token()
    const headers = {
      Authorization: `Bearer ${secret}`,
      'x-version': '1',
      'x-tenant': 'acme',
      accept: 'application/json',
    }
    const network = {
      allowOut: ['e2b.allowed.example'],
      denyOut: ['0.0.0.0/0'],
      rules: { 'e2b.allowed.example': [{ transform: { headers } }] },
    }
    const output = await fronts.e2b(
      network,
      visit('-D - https://e2b.allowed.example/e2b', 'https://denied.example/'),
    )
    await world.settle()
    const { Authorization: authorization, ...others } = headers
    expect(received('/e2b')).toMatchObject({ authorization, ...others })
    expect(output).not.toContain(secret)
    // The server repeats all headers: only the credential is masked.
    expect(output).toContain('content-type: application/json')
    expect(output).toContain('"x-tenant":"acme"')
    expect(lines(output).at(-1)).toBe('refused')
  })

  it('Vercel: header transforms for a path and a method', { timeout: 60_000 }, async () => {
    const [secret, password] = [token(), token()]
    const basic = `Basic ${Buffer.from(`user:${password}`).toString('base64')}`
    const policy = {
      allow: {
        'vercel.allowed.example': [
          {
            match: { path: { startsWith: '/v1/' } },
            transform: [{ headers: { 'x-api-key': secret, 'x-v': '2' } }],
          },
        ],
        'git-vercel.allowed.example': [{ transform: [{ headers: { authorization: basic } }] }],
      },
    }
    const output = await fronts.vercel(
      policy,
      visit(
        'https://vercel.allowed.example/v1/with',
        'https://vercel.allowed.example/v2/without',
        'https://git-vercel.allowed.example/git',
        'https://denied.example/',
      ),
    )
    await world.settle()
    expect(received('/v1/with')).toMatchObject({ 'x-api-key': secret, 'x-v': '2' })
    expect(received('/v2/without')).toBeDefined()
    expect(received('/v2/without')).not.toHaveProperty('x-api-key')
    expect(received('/git')).toMatchObject({ authorization: basic })
    for (const value of [secret, password, basic.slice(6)]) expect(output).not.toContain(value)
    expect(lines(output).at(-1)).toBe('refused')
  })

  it('E2B and OpenSandbox: everything but some targets', { timeout: 60_000 }, async () => {
    const urls = (name: string) => [
      `-k https://${name}.allowed.example/${name}`,
      // By name and address, on a port without a name, and what no policy opens. The policy denies an IPv4 network, so
      // the name's IPv6 address stays open.
      '-4 -k https://denied.example/no',
      '-k https://11.0.2.1/no',
      'http://11.0.2.1:8080/no',
      'http://169.254.169.254/no',
      `http://11.0.3.1:8080/${name}-address`,
    ]
    const refused = ['refused', 'refused', 'refused', 'refused']
    const network = { denyOut: ['11.0.2.0/24'] }
    const e2b = lines(await fronts.e2b(network, visit(...urls('all'))))
    expect(e2b.slice(1, 5)).toEqual(refused)
    const policy = {
      defaultAction: 'allow' as const,
      egress: ['11.0.2.0/24', 'denied.example'].map((target) => ({ action: 'deny' as const, target })),
    }
    const open = lines(await fronts.opensandbox(policy, visit(...urls('rest'))))
    expect(open.slice(1, 5)).toEqual(refused)
    await world.settle()
    for (const path of ['/all', '/all-address', '/rest', '/rest-address'])
      expect(received(path)).toBeDefined()
    expect(received('/no')).toBeUndefined()
  })

  it('Daytona: lists of names and networks', { timeout: 60_000 }, async () => {
    const network = { domainAllowList: '*.allowed.example', networkAllowList: '11.0.3.0/24' }
    const output = await fronts.daytona(
      network,
      visit(
        'https://daytona.allowed.example/daytona',
        'http://11.0.3.1:8080/daytona-network',
        '-k https://denied.example/no-daytona',
        '-k https://11.0.2.1/no-daytona',
      ),
    )
    await world.settle()
    expect(received('/daytona')).toBeDefined()
    expect(received('/daytona-network')).toBeDefined()
    expect(received('/no-daytona')).toBeUndefined()
    expect(lines(output).filter((line) => line === 'refused')).toHaveLength(2)
  })

  it('OpenSandbox: rules for targets', { timeout: 60_000 }, async () => {
    const policy = {
      defaultAction: 'deny' as const,
      egress: [
        { action: 'deny' as const, target: 'x.allowed.example' },
        { action: 'allow' as const, target: '*.allowed.example' },
      ],
    }
    const output = await fronts.opensandbox(
      policy,
      visit('https://open.allowed.example/open', 'https://x.allowed.example/'),
    )
    await world.settle()
    expect(received('/open')).toBeDefined()
    expect(lines(output).at(-1)).toBe('refused')
  })
})
