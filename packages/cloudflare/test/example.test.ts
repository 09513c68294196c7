/** The example Worker in the real runtime, without containers: tests access and keys. */
import { cpSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { unstable_startWorker as startWorker } from 'wrangler'
import { applyEdits } from '../src/index.ts'
import { PACKAGE, sharedProject } from './project.ts'

let worker: Awaited<ReturnType<typeof startWorker>>

beforeAll(async () => {
  const made = sharedProject({})
  cpSync(`${PACKAGE}../../examples/cloudflare`, made.path('example'), { recursive: true })
  // With containers in its config, wrangler's dev server requires an account even if they are disabled.
  const config = applyEdits(
    made.read('example/wrangler.jsonc'),
    [{ op: 'remove', path: ['containers'], why: '' }],
    '',
  )
  made.write({ 'example/wrangler.jsonc': config })
  made.write({ 'example/.dev.vars': `API_TOKENS='{"secret-a":"u42","secret-b":"../u42"}'\n` })
  worker = await startWorker({
    config: made.path('example/wrangler.jsonc'),
    build: {
      alias: {
        '@sandkasten/cloudflare/healthcheck': `${PACKAGE}src/healthcheck.ts`,
        '@sandkasten/cloudflare/preview': `${PACKAGE}src/preview.ts`,
      },
    },
    dev: { server: { port: 0 }, inspector: false, watch: false, logLevel: 'none' },
  })
  await worker.ready
}, 30_000)

afterAll(async () => {
  await worker?.dispose()
})

const post = (path: string, token?: string, body = 'id') => {
  const headers: { [name: string]: string } = token ? { authorization: `Bearer ${token}` } : {}
  return worker.fetch(`http://localhost${path}`, { method: 'POST', headers, body })
}

test('K18: requires authentication, and the caller cannot choose a key', async () => {
  expect((await post('/shell')).status).toBe(401)
  expect((await post('/shell', 'wrong')).status).toBe(401)
  expect((await post('/shell', 'constructor')).status).toBe(401)
  expect((await post('/ruby', 'secret-a')).status).toBe(404)
  expect((await post('/shell', 'secret-a', 'x'.repeat(10_001))).status).toBe(413)
  await expect(post('/shell', 'secret-b')).rejects.toThrow('a sandbox id is lower-case letters')
})

test('callers can end only their own sandbox', async () => {
  const end = (path: string, token?: string) =>
    worker.fetch(`http://localhost${path}`, {
      method: 'DELETE',
      ...(token ? { headers: { authorization: `Bearer ${token}` } } : {}),
    })
  expect((await end('/shell')).status).toBe(401)
  expect((await end('/ruby', 'secret-a')).status).toBe(404)
  await expect(end('/shell', 'secret-b')).rejects.toThrow('a sandbox id is lower-case letters')
  // Without containers, the call reaches the sandbox's Durable Object, which reports that.
  await expect(end('/shell', 'secret-a')).rejects.toThrow('Containers have not been enabled')
})

test('the health check reports that there is no container', async () => {
  const response = await worker.fetch('http://localhost/health', {
    headers: { authorization: 'Bearer secret-a' },
  })
  expect(response.status).toBe(200)
  expect(await response.json()).toMatchObject({ status: expect.stringMatching(/^(unhealthy|asleep)$/) })
})
