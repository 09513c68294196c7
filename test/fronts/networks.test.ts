import { ConnectionConfig, Sandbox as OpenSandbox } from '@alibaba-group/opensandbox'
import { Daytona } from '@daytona/sdk'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { Sandbox as VercelSandbox } from '@vercel/sandbox'
import { E2B } from 'e2b'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { DaemonProvider } from '../../packages/daemon/src/sessions/index.ts'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'

/**
 * Network policies of the vendors' own SDKs, and the network that the sandbox gets. The sandboxes are simulated: tests
 * of the engine show that a network is enforced.
 */

const credential = 'Bearer sk-credential-of-a-caller-51ac'
let daemon: TestDaemon
const provider = new MemoryProvider({ createOptions: ['resources', 'providerOptions', 'image'] })
const cleanUps: Array<() => unknown> = []

beforeAll(async () => {
  provider.command(
    () => true,
    async ({ stdout }) => void (await stdout.write('')),
  )
  const front = { listen: '127.0.0.1:0' }
  daemon = await startTestDaemon(
    {
      allowed_networks: ['none', 'open', 'policy'],
      preview_listen: '127.0.0.1:0',
      fronts: { e2b: front, daytona: front, vercel: front, opensandbox: front },
    },
    { provider: provider as unknown as DaemonProvider },
  )
})
afterAll(async () => {
  while (cleanUps.length > 0) await cleanUps.pop()!()
  await daemon?.stop()
})

const rowOf = async (id: string) => (await daemon.context.store.sessions.get(id))!
/** What the sandbox has. */
const networkOf = async (id: string) =>
  (await provider.get((await rowOf(id)).sandbox_id!, { resume: false })).network
/** What the gateway would put into requests to this host. */
const sentTo = async (id: string, host: string) => {
  const network = await networkOf(id)
  if (typeof network !== 'object') return undefined
  const { sandbox_id: sandboxId } = await rowOf(id)
  const sent: Record<string, string | undefined> = {}
  for (const { match, headers } of network.transform ?? [])
    for (const [name, value] of Object.entries(headers))
      if (match.host === host)
        sent[name] =
          typeof value === 'string'
            ? value
            : `${value.prefix ?? ''}${await daemon.daemon.sessions.networks.secretOf(value.secret, {
                sandboxId: sandboxId!,
                sessionId: undefined,
              })}`
  return sent
}
/** Nothing that a caller or a reader of the database sees has the credential. */
const isHidden = async (id: string, ...views: unknown[]) => {
  const { body } = await daemon.call('GET', `/v1/sessions/${id}`)
  const secrets = await daemon.call('GET', '/v1/secrets')
  const texts = [...views, body, secrets.body, await rowOf(id), await networkOf(id)].map((view) =>
    JSON.stringify(view),
  )
  for (const text of texts) expect(text).not.toContain('sk-credential')
  expect(secrets.body.secrets).toEqual([])
}

it('E2B: allowOut, denyOut, rules, internet access, and updates', async () => {
  const url = daemon.daemon.fronts.e2b!
  const e2b = new E2B({ apiKey: daemon.key, apiUrl: url, sandboxUrl: url })
  const box = await e2b.Sandbox.create({
    network: {
      allowOut: ['api.example.com', '*.npmjs.org', '1.1.1.1'],
      denyOut: ['0.0.0.0/0'],
      rules: { 'api.example.com': [{ transform: { headers: { Authorization: credential } } }] },
    },
  })
  const id = box.sandboxId
  expect(await networkOf(id)).toMatchObject({
    allow: [{ host: 'api.example.com' }, { host: '*.npmjs.org' }, { cidr: '1.1.1.1/32' }],
  })
  expect(await sentTo(id, 'api.example.com')).toEqual({ authorization: credential })
  const info = await box.getInfo()
  expect(info.network).toMatchObject({
    allowOut: ['api.example.com', '*.npmjs.org', '1.1.1.1/32'],
    denyOut: ['0.0.0.0/0'],
    rules: { 'api.example.com': [{ transform: { headers: { authorization: '<redacted>' } } }] },
  })
  await isHidden(id, info)
  await box.updateNetwork({ allowOut: ['b.example.com'], denyOut: ['0.0.0.0/0'] })
  expect(await networkOf(id)).toMatchObject({ allow: [{ host: 'b.example.com' }], transform: [] })
  await box.updateNetwork({ allowInternetAccess: false })
  expect(await networkOf(id)).toMatchObject({ allow: [] })
  await expect(box.updateNetwork({ denyOut: ['8.8.8.8'] })).rejects.toMatchObject({ statusCode: 400 })
  await expect(box.updateNetwork({ allowOut: ['127.0.0.1'], denyOut: ['0.0.0.0/0'] })).rejects.toMatchObject({
    statusCode: 403,
  })
  await box.kill()
})

it('Vercel: domains, subnets, header transforms, and updates', async () => {
  const front = daemon.daemon.fronts.vercel!
  const access = {
    token: daemon.key,
    teamId: 'team',
    projectId: 'project',
    fetch: ((url, init) => fetch(String(url).replace('https://vercel.com/api', front), init)) as typeof fetch,
  }
  const sandbox = await VercelSandbox.create({
    ...access,
    name: 'policies',
    networkPolicy: {
      allow: {
        '*.npmjs.org': [],
        'api.example.com': [
          {
            match: { path: { startsWith: '/v1/' }, method: ['POST'] },
            transform: [{ headers: { authorization: credential } }],
          },
        ],
      },
      subnets: { allow: ['1.1.1.0/24'], deny: ['1.1.1.7/32'] },
    },
  })
  const { body } = await daemon.call('GET', '/v1/sessions?name=policies')
  const { id } = body.sessions[0]
  expect(await networkOf(id)).toMatchObject({
    allow: [{ host: '*.npmjs.org' }, { host: 'api.example.com' }, { cidr: '1.1.1.0/24' }],
    deny: [{ cidr: '1.1.1.7/32' }],
    transform: [{ match: { host: 'api.example.com', path: '/v1/', methods: ['POST'] } }],
  })
  expect(await sentTo(id, 'api.example.com')).toEqual({ authorization: credential })
  expect(sandbox.networkPolicy).toMatchObject({
    allow: {
      '*.npmjs.org': [],
      'api.example.com': [{ transform: [{ headers: { authorization: '<redacted>' } }] }],
    },
    subnets: { allow: ['1.1.1.0/24'], deny: ['1.1.1.7/32'] },
  })
  await isHidden(id, sandbox.networkPolicy)
  await sandbox.update({ networkPolicy: { allow: ['b.example.com'] } })
  expect(await networkOf(id)).toMatchObject({ allow: [{ host: 'b.example.com' }], transform: [] })
  await sandbox.update({ networkPolicy: 'deny-all' })
  expect(sandbox.networkPolicy).toBe('deny-all')
  expect(await networkOf(id)).toMatchObject({ allow: [] })
  await expect(
    sandbox.update({ networkPolicy: { allow: { 'c.example.com': [{ forwardURL: 'https://x.example' }] } } }),
  ).rejects.toThrow()
  await sandbox.delete()
})

it('Daytona: allow lists, blocking, and changes', async () => {
  const url = daemon.daemon.fronts.daytona!
  const daytona = new Daytona({ apiKey: daemon.key, apiUrl: `${url}/api`, target: 'us' })
  cleanUps.push(() => daytona[Symbol.asyncDispose]())
  const sandbox = await daytona.create({
    networkAllowList: '1.1.1.0/24,8.8.8.8/32',
    domainAllowList: 'a.example.com, *.b.example.com',
  })
  expect(await networkOf(sandbox.id)).toMatchObject({
    allow: [
      { cidr: '1.1.1.0/24' },
      { cidr: '8.8.8.8/32' },
      { host: 'a.example.com' },
      { host: '*.b.example.com' },
    ],
  })
  expect(sandbox).toMatchObject({
    networkBlockAll: false,
    networkAllowList: '1.1.1.0/24,8.8.8.8/32',
    domainAllowList: 'a.example.com,*.b.example.com',
  })
  const settings = (body: object) =>
    fetch(`${url}/api/sandbox/${sandbox.id}/network-settings`, {
      method: 'POST',
      headers: { authorization: `Bearer ${daemon.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  const changed = await settings({ networkAllowList: '', domainAllowList: 'c.example.com' })
  expect([changed.status, await changed.json()]).toMatchObject([200, { domainAllowList: 'c.example.com' }])
  expect(await networkOf(sandbox.id)).toMatchObject({ allow: [{ host: 'c.example.com' }] })
  expect(await (await settings({ networkBlockAll: true })).json()).toMatchObject({ networkBlockAll: true })
  expect(await networkOf(sandbox.id)).toMatchObject({ allow: [] })
  expect((await settings({ networkAllowList: '10.0.0.5/32' })).status).toBe(403)
  await sandbox.delete()
})

it('OpenSandbox: default action, rules, and the egress sidecar', async () => {
  const domain = daemon.daemon.fronts.opensandbox!
  const connectionConfig = new ConnectionConfig({ domain, apiKey: daemon.key })
  const sandbox = await OpenSandbox.create({
    connectionConfig,
    image: 'host',
    skipHealthCheck: true,
    networkPolicy: {
      defaultAction: 'deny',
      egress: [
        { action: 'deny', target: 'x.b.example' },
        { action: 'allow', target: '*.b.example' },
      ],
    },
  })
  cleanUps.push(() => sandbox.close())
  expect(await networkOf(sandbox.id)).toMatchObject({
    allow: [{ host: '*.b.example' }],
    deny: [{ host: 'x.b.example' }],
  })
  await sandbox.patchEgressRules([{ action: 'allow', target: 'a.example' }])
  expect((await sandbox.getEgressPolicy()).egress).toEqual([
    { action: 'deny', target: 'x.b.example' },
    { action: 'allow', target: 'a.example' },
    { action: 'allow', target: '*.b.example' },
  ])
  await sandbox.deleteEgressRules(['*.b.example'])
  expect(await networkOf(sandbox.id)).toMatchObject({ allow: [{ host: 'a.example' }], deny: [] })
  await sandbox.kill()
})
