import { secret } from '@sandkasten/sdk'
import { VercelProvider, type VercelProviderOptions } from '@sandkasten/sdk/vercel'
import { afterEach, describe, expect, it } from 'vitest'

interface Asked {
  readonly line: string
  readonly query: URLSearchParams
  readonly authorization: string | null
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape.
  readonly body: any
}

/** A double of the vendor: records what its SDK sends, and responds in the vendor's format. It runs nothing. */
class Vendor {
  readonly asked: Asked[] = []
  snapshots: Array<{ id: string; creationMethod?: string; status?: string }> = []
  broken: RegExp | undefined
  /** Refuses this runtime, as a bad request. */
  refusedRuntime: string | undefined
  #name = 'none'
  #tags: Record<string, string> = {}

  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    const url = new URL(String(input))
    const line = `${init?.method ?? 'GET'} ${url.pathname.replace(/^\/api/, '')}`
    const body = typeof init?.body === 'string' ? JSON.parse(init.body) : undefined
    const authorization = new Headers(init?.headers).get('authorization')
    this.asked.push({ line, query: url.searchParams, authorization, body })
    const whole = `${line}${url.search}`
    if (this.broken?.test(whole)) return new Response('{}', { status: 500 })
    if (this.refusedRuntime !== undefined && body?.runtime === this.refusedRuntime)
      return Response.json({ error: { code: 'bad_request', message: 'Invalid runtime' } }, { status: 400 })
    return Response.json(this.#answer(line, body))
  }

  of(line: RegExp): Asked[] {
    return this.asked.filter((one) => line.test(one.line))
  }

  #answer(line: string, body: { name?: string; tags?: Record<string, string> } | undefined): object {
    if (/^POST \/v[23]\/sandboxes$/.test(line)) {
      this.#name = body!.name!
      this.#tags = body!.tags!
    }
    if (/\/snapshot$/.test(line)) return { snapshot: snapshot({ id: 'snap_1' }), session: this.#session }
    if (line === 'GET /v2/sandboxes/snapshots')
      return { snapshots: this.snapshots.map(snapshot), pagination: { count: 0, next: null } }
    if (line === 'GET /v2/sandboxes') return { sandboxes: [], pagination: { count: 0, next: null } }
    return { sandbox: this.#sandbox, session: this.#session, routes: [] }
  }

  get #sandbox(): object {
    const times = { createdAt: 1000, updatedAt: 1000 }
    return {
      name: this.#name,
      tags: this.#tags,
      persistent: true,
      currentSessionId: 'sbx_1',
      status: 'running',
      ...times,
    }
  }

  get #session(): object {
    const times = { requestedAt: 1000, createdAt: 1000, updatedAt: 1000, timeout: 300_000 }
    return {
      id: 'sbx_1',
      memory: 2048,
      vcpus: 1,
      region: 'iad1',
      status: 'running',
      cwd: '/vercel',
      ...times,
    }
  }
}

const snapshot = (facts: object) => ({
  sourceSessionId: 'sbx_1',
  region: 'iad1',
  status: 'created',
  sizeBytes: 1,
  createdAt: 1000,
  updatedAt: 1000,
  ...facts,
})

const three = { token: 'opaque', teamId: 'team', projectId: 'project' }
const jwt = (claims: object) => `head.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.sign`
const made = async (create = {}, options: VercelProviderOptions = three) => {
  const vendor = new Vendor()
  const provider = new VercelProvider({ ...options, fetch: vendor.fetch })
  const sandbox = await provider.create(create)
  return { vendor, provider, sandbox }
}

describe('requests of the provider vercel', () => {
  const { VERCEL_OIDC_TOKEN: before } = process.env
  const setInEnvironment = (token: string | undefined) => {
    if (token === undefined) delete process.env.VERCEL_OIDC_TOKEN
    else process.env.VERCEL_OIDC_TOKEN = token
  }
  afterEach(() => setInEnvironment(before))

  const mine = jwt({ owner_id: 'team_mine', project_id: 'prj', exp: 4_000_000_000 })
  const other = jwt({ owner_id: 'team_other', project_id: 'prj', exp: 4_000_000_000 })
  it.each([
    ['an OIDC token', { oidcToken: mine }],
    ['a token that looks like one', { token: mine, teamId: 'team_mine', projectId: 'prj' }],
  ])('send the caller’s token with every request, whatever the environment: %s', async (_, options) => {
    setInEnvironment(undefined)
    const { vendor, provider, sandbox } = await made({}, options)
    expect(process.env.VERCEL_OIDC_TOKEN).toBeUndefined()
    for (const token of [other, 'no token at all', undefined]) {
      setInEnvironment(token)
      await provider.list()
      await sandbox.status()
      await provider.listSnapshots()
      expect(process.env.VERCEL_OIDC_TOKEN).toBe(token)
    }
    await sandbox.destroy()
    expect(vendor.asked.length).toBeGreaterThan(10)
    for (const { authorization, query } of vendor.asked)
      expect([authorization, query.get('teamId')]).toEqual([`Bearer ${mine}`, 'team_mine'])
  })

  const options: Array<[name: string, create: object, line: string, body: object]> = [
    ['nothing', {}, 'POST /v3/sandboxes', { projectId: 'project', ports: [], env: {} }],
    ['an image', { image: 'node:24' }, 'POST /v3/sandboxes', { image: 'node:24' }],
    ['a runtime', { runtime: 'node24' }, 'POST /v2/sandboxes', { runtime: 'node24' }],
    ['processors', { resources: { vcpus: 4 } }, 'POST /v3/sandboxes', { resources: { vcpus: 4 } }],
    ['memory', { resources: { memoryMb: 8192 } }, 'POST /v3/sandboxes', { resources: { vcpus: 4 } }],
    [
      'both, where they fit',
      { resources: { vcpus: 2, memoryMb: 4096 } },
      'POST /v3/sandboxes',
      { resources: { vcpus: 2 } },
    ],
    [
      'a snapshot',
      { snapshotId: 'snap_1' },
      'POST /v3/sandboxes',
      { source: { type: 'snapshot', snapshotId: 'snap_1' } },
    ],
    [
      'a lifetime, ports and variables',
      { lifetimeMs: 60_000, ports: [3000, 3000, 80], envVars: { A: 'b' } },
      'POST /v3/sandboxes',
      { timeout: 60_000, ports: [80, 3000], env: { A: 'b' } },
    ],
    [
      'no network',
      { providerOptions: { networkPolicy: 'deny-all' } },
      'POST /v3/sandboxes',
      { networkPolicy: { mode: 'deny-all' } },
    ],
    [
      'rules of the network',
      { providerOptions: { networkPolicy: { allow: ['*.npmjs.org'], subnets: { deny: ['10.0.0.0/8'] } } } },
      'POST /v3/sandboxes',
      { networkPolicy: { allow: ['*.npmjs.org'], subnets: { deny: ['10.0.0.0/8'] } } },
    ],
    [
      'a network policy',
      {
        network: {
          allow: ['API.example.com'],
          transform: [
            { match: { host: 'api.example.com', path: '/v1/' }, headers: { authorization: secret('model') } },
          ],
        },
      },
      'POST /v3/sandboxes',
      {
        networkPolicy: {
          allow: {
            'api.example.com': [
              {
                match: { path: { startsWith: '/v1/' } },
                transform: [{ headers: { authorization: 'the value' } }],
              },
            ],
          },
          subnets: { allow: [], deny: [] },
        },
      },
    ],
    [
      'a disk that is not kept',
      { providerOptions: { persistent: false } },
      'POST /v3/sandboxes',
      { persistent: false },
    ],
    [
      'the rest of the vendor’s own',
      { providerOptions: { region: 'fra1', failoverRegions: ['iad1'], snapshotExpiration: 86_400_000 } },
      'POST /v3/sandboxes',
      { region: 'fra1', failoverRegions: ['iad1'], snapshotExpiration: 86_400_000 },
    ],
  ]
  it.each(options)('contain %s in the vendor’s words', async (_, create, line, body) => {
    const { vendor } = await made(create, { ...three, secrets: { model: 'the value' } })
    expect(vendor.asked).toHaveLength(1)
    expect(vendor.asked[0]).toMatchObject({ line, body })
    const wanted = new Set([...Object.keys(body), 'projectId', 'ports', 'env', 'name', 'tags'])
    expect(Object.keys(vendor.asked[0]!.body).filter((key) => !wanted.has(key))).toEqual([])
  })

  it('ask the vendor about a runtime that we do not know; its refusal gets the list of those that we do', async () => {
    const { vendor, provider } = await made({ runtime: 'node28' })
    expect(vendor.of(/^POST .*sandboxes$/)[0]!.body).toMatchObject({ runtime: 'node28' })
    const known = ['node26', 'node24', 'node22', 'python3.13']
    vendor.refusedRuntime = 'node4'
    await expect(provider.create({ runtime: 'node4' })).rejects.toMatchObject({
      code: 'unsupported',
      message: 'The provider “vercel” has no runtime “node4”.',
      hint: `It has: ${known.join(', ')}. Vercel returned 400: Invalid runtime.`,
      details: { option: 'runtime', available: known },
      cause: { code: 'invalid_argument' },
    })
    // The vendor has refused something else then.
    vendor.refusedRuntime = 'node24'
    await expect(provider.create({ runtime: 'node24' })).rejects.toMatchObject({ code: 'invalid_argument' })
  })

  it('setNetwork() changes the sandbox and its run, and secrets are in the handle by name only', async () => {
    const { vendor, sandbox } = await made({ network: 'none' }, { ...three, secrets: { model: 'the value' } })
    expect(sandbox.network).toBe('none')
    const headers = { authorization: secret('model') }
    const transform = [{ match: { host: 'example.com' }, headers }]
    await sandbox.setNetwork({ allow: ['example.com'], transform })
    const rules = [{ transform: [{ headers: { authorization: 'the value' } }] }]
    const policy = { allow: { 'example.com': rules }, subnets: { allow: [], deny: [] } }
    expect(vendor.of(/^PATCH/).map(({ body }) => body.networkPolicy)).toEqual([policy])
    expect(vendor.of(/network-policy$/).map(({ body }) => body)).toEqual([policy])
    expect(JSON.stringify(sandbox.network)).not.toContain('the value')
    expect(sandbox.network).toMatchObject({ transform: [{ headers }] })
    const refused = sandbox.setNetwork({ allow: ['example.com:22'] })
    await expect(refused).rejects.toMatchObject({ code: 'unsupported', details: { rule: 'allow[0]' } })
    expect(vendor.of(/^PATCH/)).toHaveLength(1)
  })

  it('are not sent with two networks', async () => {
    const both = { network: 'none', providerOptions: { networkPolicy: 'allow-all' } } as const
    await expect(made(both)).rejects.toMatchObject({ code: 'invalid_argument' })
  })

  const deleted = (vendor: Vendor) =>
    vendor.of(/^DELETE/).map(({ query }) => query.get('deleteOrphanSnapshots'))

  it.each([
    ['that the vendor made by itself are deleted with their sandbox', [{ creationMethod: 'auto' }], 'true'],
    ['are deleted if the sandbox has no snapshot', [], 'true'],
    [
      'all stay if one was made by the user',
      [{ creationMethod: 'auto' }, { creationMethod: 'manual' }],
      null,
    ],
    ['stay if their origin is unknown', [{}], null],
    ['that are already deleted are ignored', [{ creationMethod: 'manual', status: 'deleted' }], 'true'],
  ])('at destroy: snapshots %s', async (_, snapshots, asked) => {
    for (const end of ['sandbox', 'provider'] as const) {
      const { vendor, provider, sandbox } = await made()
      vendor.snapshots = snapshots.map((facts, at) => ({ id: `snap_${at}`, ...facts }))
      expect(await (end === 'sandbox' ? sandbox.destroy() : provider.destroy(sandbox.id))).toBe(true)
      expect(deleted(vendor)).toEqual([asked])
      expect(vendor.of(/^GET .*\/snapshots$/)[0]!.query.get('name')).toBe(sandbox.sandboxId.split('.')[0])
    }
  })

  it('at destroy: if snapshots cannot be listed, the sandbox is deleted and they stay', async () => {
    const { vendor, sandbox } = await made()
    vendor.broken = /^GET .*\/snapshots/
    expect(await sandbox.destroy()).toBe(true)
    expect(deleted(vendor)).toEqual([null])
  })

  it('for a fork, a snapshot expires by itself and is not listed', async () => {
    const { vendor, sandbox } = await made()
    expect(await sandbox.fork({ count: 2 })).toHaveLength(2)
    expect(vendor.of(/\/snapshot$/).map(({ body }) => body)).toEqual([{ expiration: 86_400_000 }])
    // The sandbox and its copies start from it until each has its own.
    expect(vendor.of(/^DELETE/)).toEqual([])
    vendor.snapshots = [{ id: 'snap_1', creationMethod: 'manual' }]
    await sandbox.destroy()
    expect(deleted(vendor)).toEqual(['true'])
  })

  it('a created snapshot is reported, even if its sandbox does not start again', async () => {
    const { vendor, sandbox } = await made()
    vendor.broken = /resume=true/
    const error = await sandbox.snapshot().catch((caught: unknown) => caught)
    expect(error).toMatchObject({
      code: 'provider_error',
      sandboxId: sandbox.sandboxId,
      details: { status: 500, snapshotId: 'snap_1' },
      hint: expect.stringContaining('snap_1'),
    })
    vendor.broken = undefined
    await sandbox.start()
    expect(await sandbox.status()).toBe('running')
  })
})
