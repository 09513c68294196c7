import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventsOf, startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'
import { isolationMissing } from '../../src/testing/isolator.ts'
import { spawnDaemon } from '../../src/testing/spawn-daemon.ts'

const missing = await isolationMissing()

/** Policies of sessions on real sandboxes: a service of this machine is the only thing that they may reach. */
describe.skipIf(missing)(`networks of isolated sessions${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let daemon: TestDaemon
  let server: Server
  let settings: Record<string, unknown>
  beforeAll(async () => {
    server = createServer((_, response) => response.end('the model'))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    settings = {
      isolator: 'oci',
      allowed_networks: ['none', 'open', 'policy'],
      egress: { services: { model: { host: '127.0.0.1', port } } },
    }
    daemon = await startTestDaemon(settings)
    // In a fresh clone this builds the gateway.
    const first = await daemon.session({ network: { allow: [] } })
    await daemon.call('DELETE', `/v1/sessions/${first}`)
  }, 600_000)
  afterAll(async () => {
    await daemon?.stop()
    server?.close()
  })

  const fetched = async (id: string, url: string) => {
    const body = { cmd: 'curl', args: ['-sS', '-m', '5', url], timeout_ms: 20_000 }
    return (await daemon.call('POST', `/v1/sessions/${id}/run`, body)).body
  }
  const model = 'http://model.sandkasten.internal/'

  it('reach what the policy names, record the rest, and change at once', { timeout: 120_000 }, async () => {
    const id = await daemon.session({ network: { allow: [], services: ['model'] } })
    expect(await fetched(id, model)).toMatchObject({ exit_code: 0, stdout: 'the model' })
    // test/egress/ways-out tries the daemon's own listeners, at every address of the host.
    expect((await fetched(id, 'http://forbidden.example/')).exit_code).not.toBe(0)
    const path = `/v1/sessions/${id}/egress`
    const denied = (await daemon.call('GET', `${path}?verdict=denied`)).body.events
    expect(denied).toContainEqual(expect.objectContaining({ host: 'forbidden.example', session_id: id }))
    const learned = (await daemon.call('GET', `${path}/policy`)).body.network
    expect(learned).toMatchObject({ allow: [], services: { model: {} } })

    const controller = new AbortController()
    const response = await daemon.fetch(`${path}?follow=true&verdict=denied&after=${denied.at(-1).seq}`, {
      signal: controller.signal,
    })
    const next = eventsOf(response).next()
    expect((await daemon.call('PUT', `/v1/sessions/${id}/network`, { allow: [] })).status).toBe(200)
    expect((await fetched(id, model)).exit_code).not.toBe(0)
    expect((await next).value).toMatchObject({ event: 'denied', data: { session_id: id } })
    controller.abort()
    await expect
      .poll(async () => (await daemon.call('GET', '/metrics')).body)
      .toContain('sandkasten_egress_decisions_total{verdict="denied"}')
    await daemon.restart()
    expect((await fetched(id, model)).exit_code).not.toBe(0)
    await daemon.call('PUT', `/v1/sessions/${id}/network`, { allow: [], services: ['model'] })
    expect(await fetched(id, model)).toMatchObject({ exit_code: 0 })
  })

  it('are those of the row after kill -9 in the middle of changes', { timeout: 300_000 }, async () => {
    const config = { ...settings, listen: '127.0.0.1:0', log_level: 'silent', api_key: daemon.key }
    const folder = `${daemon.folder}/killed`
    // biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
    const call = async (url: string, method: string, where: string, body?: unknown): Promise<any> => {
      const headers = { authorization: `Bearer ${daemon.key}` }
      const response = await fetch(`${url}${where}`, { method, headers, body: JSON.stringify(body) })
      return response.json()
    }
    let spawned = await spawnDaemon({ ...config, data_dir: folder })
    const { id } = await call(spawned.url, 'POST', '/v1/sessions', { network: { allow: [] } })
    const networks = [{ allow: [] }, { allow: [], services: ['model'] }]
    try {
      for (let round = 0; round < 6; round += 1) {
        const { url } = spawned
        let open = true
        const changing = (async () => {
          for (let at = 0; open; at += 1)
            await call(url, 'PUT', `/v1/sessions/${id}/network`, networks[at % 2]).catch(() => {
              open = false
            })
        })()
        await new Promise((resolve) => setTimeout(resolve, 30 + Math.random() * 150))
        await spawned.end('SIGKILL')
        await changing
        spawned = await spawnDaemon({ ...config, data_dir: folder })
        const { network } = await call(spawned.url, 'GET', `/v1/sessions/${id}`)
        const body = { cmd: 'curl', args: ['-sS', '-m', '5', model] }
        const { exit_code: code } = await call(spawned.url, 'POST', `/v1/sessions/${id}/run`, body)
        expect(code === 0).toBe('model' in network.services)
      }
    } finally {
      await call(spawned.url, 'DELETE', `/v1/sessions/${id}`)
      await spawned.end('SIGTERM')
    }
  })
})
