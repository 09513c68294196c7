import { MemoryProvider } from '@sandkasten/sdk/memory'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'

/** A key with the scope `read` must not start a sandbox on any route. */
let daemon: TestDaemon
let readKey: string
let routes: Array<{ path: string; scope: string }>
beforeAll(async () => {
  const provider = new MemoryProvider({ createOptions: ['resources', 'providerOptions', 'image'] })
  provider.command(
    () => true,
    async ({ stdout }) => void (await stdout.write('x')),
  )
  daemon = await startTestDaemon({ wake_on_use: true }, { provider: provider })
  readKey = (await daemon.call('POST', '/v1/keys', { name: 'reader', scopes: ['read'] })).body.key
  const { body } = await daemon.call('GET', '/openapi.json')
  routes = Object.entries<Record<string, { 'x-scope': string }>>(body.paths).flatMap(([path, methods]) =>
    methods.get ? [{ path, scope: methods.get['x-scope'] }] : [],
  )
})
afterAll(() => daemon?.stop())

async function sleeping(how: 'stop' | 'pause'): Promise<string> {
  const id = await daemon.session({ wake_on_use: true })
  const base = `/v1/sessions/${id}`
  await daemon.call('POST', `${base}/run`, { cmd: 'x', exec_id: 'e' })
  await daemon.call('POST', `${base}/terminals`, { terminal_id: 't' })
  await daemon.call('POST', `${base}/ports`, { port: 3000 })
  expect((await daemon.call('POST', `${base}/${how}`)).status).toBe(200)
  return id
}

describe.each(['stop', 'pause'] as const)('a session after %s', (how) => {
  it('is not woken by any route that the scope read allows', async () => {
    const id = await sleeping(how)
    const before = (await daemon.call('GET', `/v1/sessions/${id}`)).body
    const own = routes.filter(({ path, scope }) => scope === 'read' && path.includes('/sessions/{id}'))
    expect(own.length).toBeGreaterThan(10)
    for (const { path } of own) {
      const where = path
        .replace('{id}', id)
        .replace('{exec_id}', 'e')
        .replace('{terminal_id}', 't')
        .replace('{port}', '3000')
      // Some responses are endless streams.
      const answer = await daemon
        .fetch(`${where}?path=a`, { key: readKey, signal: AbortSignal.timeout(500) })
        .catch(() => undefined)
      if (answer?.status === 400)
        await daemon.fetch(where, { key: readKey, signal: AbortSignal.timeout(500) }).catch(() => undefined)
      const after = (await daemon.call('GET', `/v1/sessions/${id}`)).body
      expect(after, path).toMatchObject({ status: before.status, incarnation: before.incarnation })
    }
    const files = await daemon.call('GET', `/v1/sessions/${id}/files/list`, undefined, { key: readKey })
    expect(files).toMatchObject({ status: 409, body: { code: 'not_running' } })
  })

  it('is woken by the same request with the scope exec', async () => {
    const id = await sleeping(how)
    expect((await daemon.call('GET', `/v1/sessions/${id}/files/list`)).status).toBe(200)
    expect((await daemon.call('GET', `/v1/sessions/${id}`)).body.status).toBe('running')
  })
})
