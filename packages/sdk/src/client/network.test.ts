import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, describe, expect, it } from 'vitest'
import { secret } from '../index.ts'
import { DaemonProvider } from '../providers/daemon/index.ts'
import { SandboxClient } from './index.ts'

/** A server with golden answers: the tests in test/clients use the real daemon. */

interface Request {
  method: string
  url: string
  body: unknown
}

let server: Server
const requests: Request[] = []

async function serve(answers: Readonly<Record<string, unknown>>): Promise<{ url: string; apiKey: string }> {
  requests.length = 0
  server = createServer(async (request, response) => {
    const { method = '', url = '' } = request
    const body = await text(request)
    requests.push({ method, url, body: body === '' ? undefined : JSON.parse(body) })
    const answer = answers[`${method} ${url}`]
    if (typeof answer === 'string') response.setHeader('content-type', 'text/event-stream').end(answer)
    else
      response
        .writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' })
        .end(JSON.stringify(answer ?? { code: 'not_found', detail: `${method} ${url}` }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, apiKey: 'k' }
}

afterEach(() => {
  server?.closeAllConnections()
  server?.close()
})

const id = 'aaaaaaaaaaaaaaaa'
const wireSession = {
  id,
  status: 'running',
  labels: {},
  limits: { cpu: 1, memory_mb: 1, pids: 1 },
  incarnation: 1,
  network_mode: 'policy',
}
const policy = {
  allow: [{ host: 'api.github.com' }],
  deny: [],
  transform: [
    {
      match: { host: 'api.github.com', methods: ['GET'] },
      headers: { authorization: { secret: 'github', prefix: 'Bearer ' } },
    },
  ],
  services: {},
  audit: false,
}

describe('network of a session', () => {
  it('is sent at create and by setNetwork, and comes back in the names of the SDK', async () => {
    const wire = { ...policy, limits: { connections: 5, bytes: null, bytes_per_second: 100 } }
    const provider = new DaemonProvider(
      await serve({
        'POST /v1/sessions': { ...wireSession, network: wire },
        [`GET /v1/sessions/${id}`]: wireSession,
        [`PUT /v1/sessions/${id}/network`]: { ...wireSession, network: 'none' },
      }),
    )
    const headers = { authorization: secret('github', { prefix: 'Bearer ' }) }
    const sandbox = await provider.create({
      network: {
        allow: ['api.github.com'],
        transform: [{ match: { host: 'api.github.com', method: 'get' }, headers }],
        limits: { connections: 5, bytesPerSecond: 100 },
      },
    })
    expect(requests[0]!.body).toMatchObject({
      network: { ...policy, limits: { connections: 5, bytes_per_second: 100 } },
    })
    expect(sandbox.network).toEqual({ ...policy, limits: { connections: 5, bytesPerSecond: 100 } })
    await sandbox.setNetwork('none')
    expect(requests.at(-1)).toEqual({ method: 'PUT', url: `/v1/sessions/${id}/network`, body: 'none' })
    expect(sandbox.network).toBe('none')
  })

  it('is the mode of an older daemon', async () => {
    const old = { ...wireSession, network_mode: 'open' }
    const client = new SandboxClient(await serve({ [`GET /v1/sessions/${id}`]: old }))
    expect((await client.session(id).info()).network).toBe('open')
  })
})

describe('secrets', () => {
  const wire = {
    name: 'git.hub',
    version: 2,
    hosts: null,
    created_at: '2026-01-01T00:00:00Z',
    updated_at: '2026-01-02T00:00:00Z',
  }
  const info = {
    name: 'git.hub',
    version: 2,
    createdAt: new Date('2026-01-01T00:00:00Z'),
    updatedAt: new Date('2026-01-02T00:00:00Z'),
  }

  it('are listed, set and deleted', async () => {
    const client = new SandboxClient(
      await serve({
        'GET /v1/secrets': { secrets: [wire] },
        'PUT /v1/secrets/git.hub': wire,
        'DELETE /v1/secrets/git.hub': { deleted: true },
      }),
    )
    expect(await client.listSecrets()).toEqual([info])
    expect(await client.putSecret('git.hub', 'value', { hosts: ['api.github.com'] })).toEqual(info)
    expect(requests.at(-1)!.body).toEqual({ value: 'value', hosts: ['api.github.com'] })
    expect([await client.deleteSecret('git.hub'), await client.deleteSecret('other')]).toEqual([true, false])
    await expect(client.putSecret('..', 'value')).rejects.toMatchObject({ code: 'not_found' })
  })
})

describe('egress events', () => {
  const wire = (seq: number) => ({
    seq,
    session_id: id,
    at: '2026-01-01T00:00:00.005Z',
    kind: 'tls',
    host: 'github.com',
    port: 443,
    verdict: 'denied',
    rule: null,
    reason: 'no_rule',
    bytes_in: 1,
    bytes_out: 2,
    duration_ms: 3,
  })
  const path = `/v1/sessions/${id}/egress`

  it('are read in pages', async () => {
    const client = new SandboxClient(
      await serve({
        [`GET ${path}?verdict=denied&limit=1000`]: { events: [wire(1), wire(2)], next: 2 },
        [`GET ${path}?after=2&verdict=denied&limit=1000`]: { events: [], next: 2 },
      }),
    )
    const found = await all(client.egressEvents(id, { verdict: 'denied' }))
    expect(found.map(({ seq }) => seq)).toEqual([1, 2])
    expect(found[0]).toEqual({
      seq: 1,
      sessionId: id,
      at: new Date('2026-01-01T00:00:00.005Z'),
      kind: 'tls',
      host: 'github.com',
      port: 443,
      verdict: 'denied',
      reason: 'no_rule',
      bytesIn: 1,
      bytesOut: 2,
      durationMs: 3,
    })
  })

  it('are followed after the last page, up to the limit', async () => {
    const live = [3, 4, 5].map((seq) => `id: ${seq}\nevent: denied\ndata: ${JSON.stringify(wire(seq))}\n\n`)
    const client = new SandboxClient(
      await serve({
        [`GET ${path}?limit=4`]: { events: [wire(1), wire(2)], next: 2 },
        [`GET ${path}?after=2&limit=2`]: { events: [], next: 2 },
        [`GET ${path}?after=2&follow=true`]: live.join(''),
      }),
    )
    const some = await all(client.egressEvents(id, { follow: true, limit: 4 }))
    expect(some.map(({ seq }) => seq)).toEqual([1, 2, 3, 4])
  })
})

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const item of items) found.push(item)
  return found
}
