import { MemoryProvider } from '@sandkasten/sdk/memory'
import { afterEach, describe, expect, it } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import type { DaemonProvider, EgressEvent } from '../../src/sessions/index.ts'
import { eventsOf, startTestDaemon } from '../../src/testing/daemon.ts'

/**
 * What the daemon decides about networks, on simulated sandboxes that record the network which they get. Whether a
 * network is enforced, `networks-oci.test.ts` tests.
 */
class RecordingProvider extends MemoryProvider {
  readonly recorded: EgressEvent[] = []
  refreshed = 0
  /** Called for each reader that follows. */
  readonly followers = new Set<(event: EgressEvent) => void>()

  async *egressEvents(
    _: string,
    { after = 0, follow, signal }: { after?: number; follow?: boolean; signal?: AbortSignal },
  ): AsyncGenerator<EgressEvent> {
    let seen = after
    for (;;) {
      for (const event of this.recorded.filter(({ seq }) => seq > seen)) {
        seen = event.seq
        yield event
      }
      if (!follow || signal?.aborted) return
      await new Promise<void>((resolve) => {
        const done = () => {
          this.followers.delete(done)
          resolve()
        }
        this.followers.add(done)
        signal?.addEventListener('abort', done, { once: true })
      })
    }
  }

  async egressStats() {
    return { connections: 3 }
  }

  async refreshSecrets() {
    this.refreshed += 1
  }

  record(...events: Array<Partial<EgressEvent>>): void {
    for (const event of events) this.recorded.push({ ...blank, seq: this.recorded.length + 1, ...event })
    for (const wake of this.followers) wake(blank)
  }
}

const blank: EgressEvent = {
  seq: 0,
  at: Date.now() + 3_600_000,
  kind: 'tls',
  host: null,
  address: null,
  port: null,
  verdict: 'allowed',
  rule: null,
  reason: null,
  bytesIn: 0,
  bytesOut: 0,
  durationMs: 1,
  method: null,
  path: null,
  status: null,
}

const cleanUps: Array<() => unknown> = []
afterEach(async () => {
  while (cleanUps.length > 0) await cleanUps.pop()!()
})

async function begin(settings: Record<string, unknown> = {}) {
  const provider = new RecordingProvider({ createOptions: ['resources', 'providerOptions', 'image'] })
  const daemon = await startTestDaemon(
    { allowed_networks: ['none', 'open', 'policy'], ...settings },
    { provider: provider as unknown as DaemonProvider },
  )
  cleanUps.push(() => daemon.stop())
  const create = (network: unknown, more: object = {}) =>
    daemon.call('POST', '/v1/sessions', { network, ...more })
  const set = (id: string, network: unknown, key?: string) =>
    daemon.call('PUT', `/v1/sessions/${id}/network`, network, { key })
  /** What the sandbox has. */
  const networkOf = async (id: string) => {
    const { sandbox_id: sandboxId } = (await daemon.context.store.sessions.get(id))!
    return (await provider.get(sandboxId!, { resume: false })).network
  }
  const tenant = async (name: string) => {
    const { id } = (await daemon.call('POST', '/v1/projects', { name })).body
    const make = { name, scopes: ['admin'], project_id: id }
    return { id, key: (await daemon.call('POST', '/v1/keys', make)).body.key as string }
  }
  return { provider, daemon, create, set, networkOf, tenant }
}

const withSecret = (name: string, host = 'api.example.com') => ({
  allow: [host],
  transform: [
    { match: { host, methods: ['get'] }, headers: { Authorization: { secret: name, prefix: 'Bearer ' } } },
  ],
})

describeOnEachDatabase('networks of sessions', (newDatabase) => {
  async function beginHere(settings: Record<string, unknown> = {}) {
    const location = await newDatabase()
    return begin({ ...('url' in location ? { db_url: location.url } : {}), ...settings })
  }

  it('are set at create, in their normal form, and reach the sandbox', async () => {
    const { create, networkOf, daemon } = await beginHere()
    const { status, body } = await create({
      allow: ['GitHub.com', 'github.com:22'],
      deny: ['gist.github.com'],
      limits: { bytes_per_second: 1000 },
    })
    expect(status).toBe(201)
    const policy = {
      allow: [{ host: 'github.com' }, { host: 'github.com', ports: [22] }],
      deny: [{ host: 'gist.github.com' }],
      transform: [],
      services: {},
      audit: false,
    }
    expect(body).toMatchObject({
      network_mode: 'policy',
      network: { ...policy, limits: { connections: 512, bytes_per_second: 1000 } },
    })
    expect(await networkOf(body.id)).toEqual({
      ...policy,
      limits: { connections: 512, bytesPerSecond: 1000 },
    })
    expect((await daemon.call('GET', `/v1/sessions/${body.id}`)).body.network).toEqual(body.network)
    // What a session shows can be sent again.
    expect((await create(body.network)).body.network).toEqual(body.network)
  })

  it('are replaced while the session runs, and in no other project', async () => {
    const { create, set, networkOf, tenant, daemon } = await beginHere()
    const { id } = (await create({ allow: ['a.example'] })).body
    const changed = await set(id, { allow: ['b.example'] })
    expect(changed).toMatchObject({ status: 200, body: { network: { allow: [{ host: 'b.example' }] } } })
    expect(await networkOf(id)).toMatchObject({ allow: [{ host: 'b.example' }] })
    expect((await set(id, 'none')).body).toMatchObject({ network_mode: 'none', network: 'none' })
    expect(await networkOf(id)).toBe('none')
    const other = await tenant('other')
    expect((await set(id, 'open', other.key)).status).toBe(404)
    expect(
      (await daemon.call('GET', `/v1/sessions/${id}/egress`, undefined, { key: other.key })).status,
    ).toBe(404)
    const changes = async () => {
      const { events } = (await daemon.call('GET', '/v1/events?after=0&limit=100')).body
      return events.filter(({ type }: { type: string }) => type === 'session.network').length
    }
    await expect.poll(changes).toBe(2)
  })

  it('stay as they were when the provider cannot change them', async () => {
    const { create, set, provider, daemon } = await beginHere()
    const { id } = (await create({ allow: ['a.example'] })).body
    provider.get = async () => {
      throw new Error('away')
    }
    const open = daemon.context.live.opened(id, 1)!
    open.sandbox.setNetwork = async () => {
      throw new Error('away')
    }
    expect((await set(id, 'open')).status).toBe(500)
    const { body } = await daemon.call('GET', `/v1/sessions/${id}`)
    expect(body.network).toMatchObject({ allow: [{ host: 'a.example' }] })
  })

  it('name secrets of the own project only, and hosts that these may be sent to', async () => {
    const { create, set, tenant, daemon } = await beginHere()
    const other = await tenant('other')
    await daemon.call('PUT', '/v1/secrets/foreign', { value: 'foreign-value' }, { key: other.key })
    expect(await create(withSecret('foreign'))).toMatchObject({
      status: 400,
      body: { detail: expect.stringContaining('foreign') },
    })
    await daemon.call('PUT', '/v1/secrets/own', { value: 'own-value', hosts: ['*.example.com'] })
    const { id } = (await create(withSecret('own'))).body
    expect(await set(id, withSecret('own', 'example.net'))).toMatchObject({
      status: 403,
      body: { details: { secret: 'own' } },
    })
    const { networks } = daemon.daemon.sessions
    const { sandbox_id: sandboxId } = (await daemon.context.store.sessions.get(id))!
    const at = { sandboxId: sandboxId!, sessionId: undefined }
    expect(await networks.secretOf('own', at)).toBe('own-value')
    expect(await networks.secretOf('foreign', at)).toBeUndefined()
    // Narrowed later: sandboxes that use it elsewhere lose it.
    await daemon.call('PUT', '/v1/secrets/own', { value: 'own-value', hosts: ['other.example'] })
    expect(await networks.secretOf('own', at)).toBeUndefined()
  })

  it('pass on a new value at once, also one that another daemon has set', async () => {
    const { create, provider, daemon } = await beginHere()
    await daemon.call('PUT', '/v1/secrets/own', { value: 'first-value' })
    await create(withSecret('own'))
    const before = provider.refreshed
    await daemon.call('PUT', '/v1/secrets/own', { value: 'second-value' })
    expect(provider.refreshed).toBe(before + 1)
    await daemon.daemon.sessions.networks.tend()
    await daemon.context.store.secrets.delete('default', 'own')
    await daemon.daemon.sessions.networks.tend()
    expect(provider.refreshed).toBeGreaterThan(before + 1)
  })

  it('are kept by snapshots, forks, stops and a restart of the daemon', async () => {
    const { create, daemon, networkOf } = await beginHere()
    const { id, network } = (await create({ allow: ['a.example'], limits: { bytes: 7 } })).body
    const snapshot = (await daemon.call('POST', `/v1/sessions/${id}/snapshots`, {})).body
    const restored = await create(undefined, { snapshot_id: snapshot.id })
    expect(restored.body.network).toEqual(network)
    expect(await networkOf(restored.body.id)).toEqual(await networkOf(id))
    const [copy] = (await daemon.call('POST', `/v1/sessions/${id}/fork`, { count: 1 })).body.sessions
    expect(copy.network).toEqual(network)
    expect(await networkOf(copy.id)).toEqual(await networkOf(id))
    await daemon.call('POST', `/v1/sessions/${id}/stop`)
    expect((await daemon.call('POST', `/v1/sessions/${id}/start`)).body.network).toEqual(network)
  })

  it('are applied again after a daemon was killed in the middle of a change', async () => {
    const { create, daemon, networkOf } = await beginHere()
    const { id } = (await create({ allow: ['a.example'] })).body
    // As a process leaves it that ends between the row and the sandbox.
    const row = JSON.stringify({
      ...((await networkOf(id)) as object),
      allow: [{ host: 'b.example' }],
      services: [],
    })
    await daemon.context.store.sessions.update(id, undefined, { network_policy: row })
    await daemon.daemon.sessions.networks.recover()
    expect(await networkOf(id)).toMatchObject({ allow: [{ host: 'b.example' }] })
  })
})

describe('what policies may name', () => {
  it('is nothing, unless the configuration allows policies', async () => {
    const { create } = await begin({ allowed_networks: ['none'] })
    expect((await create({ allow: [] })).status).toBe(403)
  })

  it.each([
    '127.0.0.1',
    '127.0.0.1:8080',
    '10.0.0.5',
    '10.0.0.0/8',
    '10.1.2.0/24',
    '169.254.169.254',
    '192.168.1.1:22',
    '0.0.0.0',
    '[::1]:80',
    'fd00::1',
    'fe80::1',
    '64:ff9b::a00:1',
    '2002:a00:1::',
  ])('is not %s', async (rule) => {
    const { create } = await begin()
    expect(await create({ allow: [rule] })).toMatchObject({ status: 403, body: { code: 'forbidden' } })
  })

  it.each(['0.0.0.0/0', '::/0', '1.1.1.1', '8.0.0.0/7', '2606:4700::1111', 'example.com:5432'])(
    'is %s',
    async (rule) => {
      const { create } = await begin()
      expect((await create({ allow: [rule] })).status).toBe(201)
    },
  )

  it('is what the operator lists: addresses, and services by name', async () => {
    const { create, networkOf } = await begin({
      egress: {
        addresses: ['10.1.0.0/16'],
        services: { model: { host: '127.0.0.1', port: 8899 } },
      },
    })
    expect((await create({ allow: ['10.1.2.3:5432'] })).status).toBe(201)
    expect((await create({ allow: ['10.2.0.1'] })).status).toBe(403)
    const { status, body } = await create({ allow: [], services: ['model'] })
    expect(status).toBe(201)
    // Tenants do not learn the address.
    expect(body.network.services).toEqual({ model: { host: 'model.sandkasten.internal', port: 80 } })
    expect(await networkOf(body.id)).toMatchObject({ services: { model: { host: '127.0.0.1', port: 8899 } } })
    expect((await create(body.network)).status).toBe(201)
    for (const services of [
      ['other'],
      { model: { host: '127.0.0.1', port: 8080 } },
      { x: { host: '10.0.0.1', port: 1 } },
    ])
      expect((await create({ allow: [], services })).status).toBe(403)
  })

  it('is within the limits of the configuration, which are the defaults', async () => {
    const { create } = await begin({ egress: { max: { connections: 10, bytes: 1000 } } })
    expect((await create({ allow: [] })).body.network.limits).toEqual({ connections: 10, bytes: 1000 })
    expect((await create({ allow: [], limits: { connections: 11 } })).status).toBe(400)
    expect((await create({ allow: [], limits: { bytes: 1001 } })).status).toBe(400)
    expect((await create({ allow: [], limits: { bytes_per_second: 5 } })).status).toBe(201)
  })

  it('is checked in errors that name the rule', async () => {
    const { create } = await begin()
    const { status, body } = await create({ allow: ['a.example', 'https://b.example'] })
    expect(status).toBe(400)
    expect(body.detail).toContain('network.allow[1]')
  })

  it('does not include audit where open is not allowed', async () => {
    const { create } = await begin({ allowed_networks: ['none', 'policy'] })
    expect((await create({ allow: [], audit: true })).status).toBe(403)
  })

  it('is narrowed by the policy of the project, at create, change and start', async () => {
    const { daemon, tenant } = await begin({
      egress: { services: { model: { host: '127.0.0.1', port: 1 } } },
    })
    const { id: project, key } = await tenant('acme')
    const put = (policy: object) => daemon.call('PUT', `/v1/projects/${project}/policy`, policy)
    const create = (network: unknown) => daemon.call('POST', '/v1/sessions', { network }, { key })
    const early = (await create({ allow: ['elsewhere.example'] })).body.id
    expect(
      (await put({ networks: ['policy'], hosts: ['*.example.com', 'preset:github', 'b.example:22'] })).status,
    ).toBe(200)
    expect((await create('none')).status).toBe(403)
    expect((await create(undefined)).status).toBe(403)
    const allowed = ['a.example.com', '*.example.com', 'preset:github', 'b.example:22']
    const { status, body } = await create({ allow: allowed })
    expect(status).toBe(201)
    for (const rule of ['example.com', 'b.example', 'preset:openai', '1.1.1.1', '*.com'])
      expect(await create({ allow: [rule] })).toMatchObject({
        status: 403,
        body: { details: { policy: 'hosts' } },
      })
    expect((await create({ allow: [], audit: true })).status).toBe(403)
    const set = (network: unknown) => daemon.call('PUT', `/v1/sessions/${body.id}/network`, network, { key })
    expect((await set({ allow: ['c.example'] })).status).toBe(403)
    expect((await set({ allow: ['c.example.com'] })).status).toBe(200)
    await daemon.call('POST', `/v1/sessions/${early}/stop`, undefined, { key })
    expect((await daemon.call('POST', `/v1/sessions/${early}/start`, undefined, { key })).status).toBe(403)
    await put({ services: [] })
    expect((await create({ allow: [], services: ['model'] })).status).toBe(403)
  })
})

describe('egress events', () => {
  it('are listed in pages, filtered, followed, counted, and make a policy', async () => {
    const { create, provider, daemon } = await begin()
    const { id } = (await create({ allow: ['a.example'], audit: true, deny: ['d.example'] })).body
    await daemon.daemon.sessions.networks.tend()
    provider.record(
      { host: 'a.example', port: 443, bytesIn: 10, bytesOut: 5 },
      { host: 'a.example', port: 80, verdict: 'allowed' },
      { host: 'b.example', port: 22, verdict: 'audit', kind: 'tcp' },
      { host: 'c.example', port: 443, verdict: 'denied', reason: 'no_rule' },
      { kind: 'dns', host: 'e.example', verdict: 'audit' },
      { address: '1.2.3.4', port: 5432, verdict: 'audit', kind: 'tcp' },
    )
    const path = `/v1/sessions/${id}/egress`
    const first = (await daemon.call('GET', `${path}?limit=2`)).body
    expect(first).toMatchObject({
      next: 2,
      events: [{ seq: 1, session_id: id, bytes_in: 10, host: 'a.example' }, { seq: 2 }],
    })
    expect((await daemon.call('GET', `${path}?after=2`)).body).toMatchObject({
      next: 6,
      events: { length: 4 },
    })
    const denied = (await daemon.call('GET', `${path}?verdict=denied`)).body
    expect(denied).toMatchObject({ next: 6, events: [{ seq: 4, reason: 'no_rule' }] })
    // As long as the gateway's numbers are.
    expect((await daemon.call('GET', `${path}?after=1795065317663006`)).body).toEqual({
      events: [],
      next: 1795065317663006,
    })

    const controller = new AbortController()
    const response = await daemon.fetch(`${path}?follow=true&after=5`, { signal: controller.signal })
    const stream = eventsOf(response)
    expect((await stream.next()).value).toMatchObject({
      id: '6',
      event: 'audit',
      data: { seq: 6, address: '1.2.3.4' },
    })
    provider.record({ host: 'a.example', port: 443 })
    expect((await stream.next()).value).toMatchObject({ id: '7', event: 'allowed' })
    controller.abort()

    const { network } = (await daemon.call('GET', `${path}/policy`)).body
    expect(network).toMatchObject({
      allow: [
        { cidr: '1.2.3.4/32', ports: [5432] },
        { host: 'a.example' },
        { host: 'b.example', ports: [22] },
      ],
      deny: [{ host: 'd.example' }],
      audit: false,
    })
    expect((await create(network)).status).toBe(201)
    const metrics = (await daemon.call('GET', '/metrics')).body as string
    expect(metrics).toContain('sandkasten_egress_decisions_total{verdict="allowed"} 3')
    expect(metrics).toContain('sandkasten_egress_decisions_total{verdict="denied"} 1')
    expect(metrics).toContain('sandkasten_egress_bytes_total{direction="in"} 10')
    expect(metrics).toMatch(/sandkasten_egress_connections [1-9]/)
  })

  it('are refused without a policy, and end with the session', async () => {
    const { create, daemon } = await begin()
    const { id } = (await create('open')).body
    expect((await daemon.call('GET', `/v1/sessions/${id}/egress`)).status).toBe(409)
    expect((await daemon.call('GET', `/v1/sessions/${id}/egress/policy`)).status).toBe(409)
    const { id: other } = (await create({ allow: [] })).body
    await daemon.daemon.sessions.networks.tend()
    expect(daemon.daemon.sessions.networks.watch.size).toBe(1)
    await daemon.call('DELETE', `/v1/sessions/${other}`)
    await daemon.daemon.sessions.networks.tend()
    expect(daemon.daemon.sessions.networks.watch.size).toBe(0)
  })
})
