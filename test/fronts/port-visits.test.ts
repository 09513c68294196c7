import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventsOf, startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { descriptors } from '../../packages/daemon/src/testing/usage.ts'

const missing = await isolationMissing()

describe.skipIf(missing)(`visits to ports${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let daemon: TestDaemon
  let id: string
  beforeAll(async () => {
    daemon = await startTestDaemon({ isolator: 'oci', fronts: { e2b: { listen: '127.0.0.1:0' } } })
    const response = await fetch(`${daemon.daemon.fronts.e2b}/sandboxes`, {
      method: 'POST',
      headers: { 'x-api-key': daemon.key, 'content-type': 'application/json' },
      body: JSON.stringify({ templateID: 'base' }),
    })
    id = ((await response.json()) as { sandboxID: string }).sandboxID
  })
  afterAll(() => daemon?.stop())

  const visit = async (port: number, agent: Agent) => {
    const { hostname, port: listener } = new URL(daemon.daemon.fronts.e2b!)
    const headers = { 'e2b-sandbox-id': id, 'e2b-sandbox-port': String(port) }
    const outgoing = request({ hostname, port: listener, headers, agent }).end()
    const [response] = await once(outgoing, 'response')
    response.resume()
    await once(response, 'end')
    return response.statusCode as number
  }

  it('2,000 visits without a key to closed ports leave nothing behind', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 20 })
    await Promise.all(Array.from({ length: 100 }, (_, index) => visit(60_000 + index, agent)))
    globalThis.gc?.()
    const before = { ...descriptors(), rss: process.memoryUsage.rss() }
    for (let first = 1; first <= 2000; first += 100) {
      const ports = Array.from({ length: 100 }, (_, index) => first + index)
      const statuses = await Promise.all(ports.map((port) => visit(port, agent)))
      expect(new Set(statuses)).toEqual(new Set([502]))
    }
    const after = descriptors()
    expect(after.listening).toBe(before.listening)
    expect(after.open - before.open).toBeLessThan(10)
    expect(process.memoryUsage.rss() - before.rss).toBeLessThan(100_000_000)
    agent.destroy()
  })

  it('long visits are limited for each session, and take nothing from its commands', async () => {
    const silent = `require('net').createServer(() => {}).listen(3000, '127.0.0.1', () => console.log('ready'))`
    const run = { cmd: 'node', args: ['-e', silent], exec_id: 'silent', detach: true }
    await daemon.call('POST', `/v1/sessions/${id}/run`, run)
    const output = await daemon.fetch(`/v1/sessions/${id}/execs/silent/output?after=0`)
    for await (const { event } of eventsOf(output)) if (event === 'stdout') break
    const { hostname, port } = new URL(daemon.daemon.fronts.e2b!)
    const headers = { 'e2b-sandbox-id': id, 'e2b-sandbox-port': '3000' }
    const statuses: number[] = []
    const visits = Array.from({ length: 300 }, () =>
      request({ hostname, port, headers, agent: false })
        .on('error', () => {})
        .on('response', (response) => statuses.push(response.resume().statusCode!))
        .end(),
    )
    await expect.poll(() => statuses.length, { timeout: 20_000 }).toBeGreaterThanOrEqual(60)
    expect(new Set(statuses)).toEqual(new Set([429]))
    const { body } = await daemon.call('POST', `/v1/sessions/${id}/run`, { cmd: 'echo', args: ['fine'] })
    expect(body).toMatchObject({ exit_code: 0, stdout: 'fine\n' })
    for (const one of visits) one.destroy()
    await expect.poll(() => visit(1, new Agent()), { timeout: 10_000 }).toBe(502)
  })
})
