import { secret } from '@sandkasten/sdk'
import { E2BProvider, type E2BProviderOptions } from '@sandkasten/sdk/e2b'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../../packages/daemon/src/testing/daemon.ts'
import { GitServer, removeTempFolders } from '../../../packages/sdk/src/recipes/test-kit.ts'

interface Sent {
  readonly template: string
  readonly options: Record<string, unknown>
}

function stub(commands: object = {}) {
  const sent: Sent[] = []
  const updates: unknown[] = []
  const now = { state: 'running', startedAt: new Date(0), endAt: new Date(8e15), metadata: {} }
  class Sandbox {
    readonly sandboxId = 'made'
    readonly trafficAccessToken = 'traffic'
    readonly files = { getInfo: async () => ({ path: '/home/user' }) }
    readonly commands = commands
    static async create(template: string, options: Record<string, unknown>) {
      sent.push({ template, options })
      return new Sandbox()
    }
    static connect() {}
    static createSnapshot() {}
    static fork() {}
    static async getInfo(sandboxId: string) {
      return { sandboxId, ...now }
    }
    async updateNetwork(network: unknown) {
      updates.push(network)
    }
    static async kill() {
      return true
    }
    getHost(port: number) {
      return `${port}-made.e2b.example`
    }
  }
  return { sent, updates, sdk: { Sandbox } }
}

const made = async (create: object, options: E2BProviderOptions = {}) => {
  const { sdk, sent } = stub()
  await new E2BProvider({ apiKey: 'key', sdk, ...options }).create(create)
  return sent[0]!
}

describe('what the provider e2b asks of its SDK', () => {
  it.each<[name: string, create: object, options: E2BProviderOptions, template: string]>([
    ['the template base', {}, {}, 'base'],
    ['the provider’s template', {}, { template: 'mine' }, 'mine'],
    ['an image', { image: 'python' }, { template: 'mine' }, 'python'],
    ['the template of a runtime', { runtime: 'node24' }, { runtimes: { node24: 'my-node' } }, 'my-node'],
    ['a snapshot', { snapshotId: 'team/snap:default' }, { template: 'mine' }, 'team/snap:default'],
  ])('is %s', async (_, create, options, template) => {
    expect((await made(create, options)).template).toBe(template)
  })

  it('makes no call for a runtime without a template, and names those with one', async () => {
    const { sdk, sent } = stub()
    const provider = new E2BProvider({ apiKey: 'key', sdk, runtimes: { node22: 'my-node' } })
    await expect(provider.create({ runtime: 'node24' })).rejects.toMatchObject({
      code: 'unsupported',
      hint: expect.stringMatching(/It has: node22\. .*runtimes: \{ 'node24': '…' \}/),
    })
    expect(sent).toEqual([])
  })

  it('create() passes the options in the vendor’s words; the sandbox is stopped at its timeout, and closed', async () => {
    const { options } = await made({
      lifetimeMs: 60_000,
      envVars: { A: 'b' },
      labels: { c: 'd' },
      label: 'For people',
    })
    expect(options).toMatchObject({
      apiKey: 'key',
      timeoutMs: 60_000,
      envs: { A: 'b' },
      metadata: { c: 'd', sandkasten: '1', 'sandkasten.label': 'For people' },
      lifecycle: { onTimeout: { action: 'pause', keepMemory: false } },
      network: { allowPublicTraffic: false },
    })
  })

  it('passes the vendor’s own options unchanged', async () => {
    const own = {
      allowInternetAccess: false,
      lifecycle: { onTimeout: 'kill' },
      volumeMounts: { '/data': 'volume' },
      mcp: { server: {} },
      iam: {},
    }
    const network = { denyOut: ['0.0.0.0/0'], allowOut: ['1.1.1.1'] }
    const { options } = await made({ providerOptions: { ...own, network } })
    expect(options).toMatchObject({ ...own, network: { ...network, allowPublicTraffic: false } })
    const open = await made({ providerOptions: { network: { allowPublicTraffic: true } } })
    expect(open.options.network).toEqual({ allowPublicTraffic: true })
  })

  it('translates a network policy, which is not mixed with the vendor’s own options', async () => {
    const headers = { authorization: secret('model') }
    const network = { allow: ['example.com'], transform: [{ match: { host: 'example.com' }, headers }] }
    const { options } = await made({ network }, { secrets: { model: 'the value' } })
    expect(options.network).toEqual({
      allowPublicTraffic: false,
      allowOut: ['example.com'],
      denyOut: ['0.0.0.0/0'],
      rules: { 'example.com': [{ transform: { headers: { authorization: 'the value' } } }] },
    })
    const { sdk, sent } = stub()
    const provider = new E2BProvider({ apiKey: 'key', sdk })
    for (const providerOptions of [{ allowInternetAccess: true }, { network: { denyOut: [] } }])
      await expect(provider.create({ network: 'none', providerOptions })).rejects.toMatchObject({
        code: 'invalid_argument',
      })
    await expect(provider.create({ network })).rejects.toMatchObject({ details: { secret: 'model' } })
    expect(sent).toEqual([])
  })

  it('setNetwork() replaces the vendor’s whole configuration', async () => {
    const { sdk, updates } = stub()
    const sandbox = await new E2BProvider({ apiKey: 'key', sdk }).create({ network: 'none' })
    await sandbox.setNetwork({ allow: ['example.com', '198.51.100.7'] })
    await sandbox.setNetwork('open')
    expect(updates).toEqual([{ allowOut: ['example.com', '198.51.100.7/32'], denyOut: ['0.0.0.0/0'] }, {}])
    expect(sandbox.network).toBe('open')
  })

  it('makes no call for an unknown option, or one with a name of ours', async () => {
    const { sdk, sent } = stub()
    const provider = new E2BProvider({ apiKey: 'key', sdk })
    for (const option of ['colour', 'apiKey', 'metadata', 'timeoutMs', 'template', 'headers'])
      await expect(provider.create({ providerOptions: { [option]: 'x' } })).rejects.toMatchObject({
        code: 'invalid_argument',
        message: `\`providerOptions.${option}\` is not known.`,
        hint: expect.stringContaining('network'),
      })
    expect(sent).toEqual([])
  })

  it('after a lost create response, lists all pages, running and paused, and removes the sandbox', async () => {
    const { sdk } = stub()
    const queries: object[] = []
    const killed: string[] = []
    const pages = [['a', 'b'], ['c']]
    const list = ({ query }: { query: object }) => {
      queries.push(query)
      const left = [...pages]
      return {
        get hasNext() {
          return left.length > 0
        },
        nextItems: async () => left.shift()!.map((sandboxId) => ({ sandboxId })),
      }
    }
    Object.assign(sdk.Sandbox, {
      list,
      create: () => Promise.reject(new TypeError('fetch failed')),
      kill: async (id: string) => killed.push(id),
    })
    const creating = new E2BProvider({ apiKey: 'key', sdk }).create()
    await expect(creating).rejects.toMatchObject({ code: 'connection_lost', details: {} })
    expect(queries).toEqual([
      { metadata: { 'sandkasten.making': expect.any(String) }, state: ['running', 'paused'] },
    ])
    expect(killed).toEqual(['a', 'b', 'c'])
  })

  it('a cancelled fork removes all copies', async () => {
    const { sdk } = stub()
    const killed: string[] = []
    const controller = new AbortController()
    const copies = ['one', 'two'].map((sandboxId) => Object.assign(new sdk.Sandbox(), { sandboxId }))
    Object.assign(sdk.Sandbox, {
      connect: async (id: string) => copies.find(({ sandboxId }) => sandboxId === id),
      kill: async (id: string) => killed.push(id) > 0,
    })
    Object.assign(sdk.Sandbox.prototype, {
      fork: async () => {
        controller.abort()
        return copies
      },
    })
    const sandbox = await new E2BProvider({ apiKey: 'key', sdk }).create()
    const forking = sandbox.fork({ count: 2, signal: controller.signal })
    await expect(forking).rejects.toMatchObject({ code: 'aborted' })
    expect(killed.sort()).toEqual(['one', 'two'])
  })

  it('a fork returns each copy or its error; a copy that can be neither used nor removed is named', async () => {
    const { sdk } = stub()
    const copies = ['good', 'bad'].map((sandboxId) => Object.assign(new sdk.Sandbox(), { sandboxId }))
    const broken = Object.assign(new Error('500: broken'), { statusCode: 500 })
    Object.assign(sdk.Sandbox, {
      connect: async (id: string) => (id === 'good' ? copies[0] : Promise.reject(broken)),
      kill: () => Promise.reject(broken),
    })
    Object.assign(sdk.Sandbox.prototype, { fork: async () => [copies[0], new Error('no room'), copies[1]] })
    const sandbox = await new E2BProvider({ apiKey: 'key', sdk }).create()
    const made = await sandbox.fork({ count: 3 })
    expect(made).toMatchObject([
      { sandboxId: 'good' },
      { code: 'provider_error', message: 'E2B: no room' },
      { code: 'provider_error', details: { left: 'bad' } },
    ])
  })

  it('a port has its own host if no single address serves all', async () => {
    const { sdk } = stub()
    const sandbox = await new E2BProvider({ apiKey: 'key', sdk }).create()
    expect(await sandbox.getEndpoint(3000)).toEqual({
      url: 'https://3000-made.e2b.example',
      headers: { 'E2B-Traffic-Access-Token': 'traffic' },
    })
  })

  it('rejects an SDK whose process client is missing', async () => {
    for (const commands of [{}, { rpc: {} }, { rpc: { start: () => {} } }]) {
      const { sdk } = stub(commands)
      const sandbox = await new E2BProvider({ apiKey: 'key', sdk }).create()
      await expect(sandbox.runCommand({ cmd: 'true' })).rejects.toMatchObject({
        code: 'sdk_missing',
        hint: expect.stringContaining('npm install e2b@2'),
      })
    }
  })
})

describe('the provider e2b on its front', () => {
  let daemon: TestDaemon
  let server: GitServer
  beforeAll(async () => {
    server = await GitServer.start()
    daemon = await startTestDaemon({ preview_listen: 'off', fronts: { e2b: { listen: '127.0.0.1:0' } } })
  })
  afterAll(async () => {
    await daemon?.stop()
    server?.stop()
    removeTempFolders()
  })
  const provider = () => {
    const url = daemon.daemon.fronts.e2b!
    return new E2BProvider({ apiKey: daemon.key, apiUrl: url, sandboxUrl: url })
  }

  it('get and start do not shorten a given lifetime', async () => {
    const sandbox = await provider().create({ lifetimeMs: 3_600_000 })
    const end = async () => (await sandbox.info()).expiresAt!.getTime()
    const before = await end()
    await (await provider().get(sandbox.id)).start()
    await provider().get(sandbox.id, { resume: false })
    await sandbox.start()
    expect(await end()).toBe(before)
    await sandbox.destroy()
  })

  it('clones a repository with its token, which is not stored in a file', async () => {
    const { url, token } = server
    const sandbox = await provider().create({ repo: url, gitToken: token })
    expect(server.requests).toContain(server.authorization)
    expect(await sandbox.files.readFile('readme.md', 'utf8')).toBe('hello')
    expect(await sandbox.files.readFile('.git/config', 'utf8')).toContain(url)
    const { stdout } = await sandbox.runCommand({ cmd: 'grep', args: ['-rFl', '--', token, '.'] })
    expect(stdout).toBe('')
    await sandbox.destroy()
  })

  it('a failed clone leaves no sandbox, and the error does not contain the token, even if the server echoes it', async () => {
    const { url, token } = server
    server.answer = ({ headers }) => headers.authorization && `you sent ${token} and ${headers.authorization}`
    const error = await provider()
      .create({ repo: url, gitToken: token })
      .catch((caught: unknown) => caught)
    server.answer = undefined
    expect(error).toMatchObject({ code: 'provider_error', hint: expect.stringContaining('gitToken') })
    const { message, stack } = error as Error
    for (const form of [token, server.authorization.slice(6)])
      expect(`${message}${stack}${JSON.stringify(error)}`).not.toContain(form)
    expect(await provider().list()).toEqual([])
  })
})
