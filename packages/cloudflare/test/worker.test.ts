/**
 * The two Worker modules inside the real runtime (workerd, started by wrangler, no container). Objects are reached
 * through real stubs, and previews through the SDK's `proxyToSandbox`. `DeskBox` is the double of the container: it
 * implements `getState`, `exec` and preview requests.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { unstable_DevEnv as DevEnv } from 'wrangler'
import { PACKAGE, type Project, sharedProject } from './project.ts'

const WORKER = `
import { DurableObject } from 'cloudflare:workers'
import { getSandbox, proxyToSandbox } from '@cloudflare/sandbox'
import { probeSandbox } from '${PACKAGE}src/healthcheck.ts'
import { proxyToSandboxes } from '${PACKAGE}src/preview.ts'

class DeskBox extends DurableObject {
  calls = []
  async getState() { return { status: this.ctx.id.name.includes('asleep') ? 'stopped' : 'healthy', lastChange: 0 } }
  async exec(command, options) {
    this.calls.push([command, options])
    if (this.ctx.id.name.includes('hangs')) await new Promise((resolve) => setTimeout(resolve, 5000))
    if (this.ctx.id.name.includes('broken')) throw new Error('container is gone')
    return { exitCode: this.ctx.id.name.includes('fails') ? 3 : 0, stdout: '', stderr: '' }
  }
  async seen() { return this.calls }
  async fetch(request) { return Response.json({ box: this.constructor.name, id: this.ctx.id.name, port: request.headers.get('x-sandbox-preview-port') ?? 'some' }) }
  async configure() {}
}
export class ShellBox extends DeskBox {}
export class PythonBox extends DeskBox {}

export default {
  async fetch(request, env) {
    const url = new URL(request.headers.get('x-test-url') ?? request.url)
    if (url.pathname === '/probe') {
      const id = url.searchParams.get('id')
      const stub = env.SHELL_SANDBOX.get(env.SHELL_SANDBOX.idFromName(id))
      const options = { timeoutMs: 300, wake: url.searchParams.has('wake') }
      const probe = await probeSandbox(stub, options)
      return Response.json({ ...probe, error: probe.error && String(probe.error), calls: await stub.seen() })
    }
    const preview = new Request(url, request)
    if (url.searchParams.has('plain')) return (await proxyToSandbox(preview, env)) ?? new Response('no preview', { status: 404 })
    const routes = { shell: env.SHELL_SANDBOX, python: env.PYTHON_SANDBOX }
    return (await proxyToSandboxes(preview, routes, proxyToSandbox)) ?? new Response('no preview', { status: 404 })
  },
}
`

const CONFIG = {
  name: 'worker',
  main: 'index.js',
  compatibility_date: '2026-01-01',
  compatibility_flags: ['nodejs_compat'],
  durable_objects: {
    bindings: [
      { name: 'SHELL_SANDBOX', class_name: 'ShellBox' },
      { name: 'PYTHON_SANDBOX', class_name: 'PythonBox' },
    ],
  },
  migrations: [{ tag: 'v1', new_sqlite_classes: ['ShellBox', 'PythonBox'] }],
}

const devEnv = new DevEnv()
let worker: Awaited<ReturnType<typeof devEnv.startWorker>>

beforeAll(async () => {
  const made: Project = sharedProject({ 'index.js': WORKER, 'wrangler.json': JSON.stringify(CONFIG) })
  // A Worker that does not bundle never becomes ready, and wrangler's own `dispose` waits for that.
  const failed = new Promise<never>((_, reject) => {
    const fail = (event: { cause?: unknown }) =>
      reject(new Error('The Worker did not start.', { cause: event.cause ?? event }))
    devEnv.once('buildFailed', fail)
    devEnv.once('error', fail)
  })
  failed.catch(() => {})
  worker = await devEnv.startWorker({
    config: made.path('wrangler.json'),
    dev: { server: { port: 0 }, inspector: false, watch: false, logLevel: 'none' },
  })
  await Promise.race([worker.ready, failed])
})

afterAll(() => devEnv.teardown())

const ask = async (url: string) => {
  const response = await worker.fetch('http://localhost/', { headers: { 'x-test-url': url } })
  const text = await response.text()
  return { status: response.status, body: text.startsWith('{') ? JSON.parse(text) : text }
}

describe('K20: the health check in a Worker', () => {
  test.each([
    ['well', 'well', { status: 'healthy', state: 'healthy', exitCode: 0 }],
    ['fails', 'fails', { status: 'unhealthy', exitCode: 3 }],
    ['broken', 'broken', { status: 'unhealthy', error: 'Error: container is gone' }],
    ['hangs: ends at the time limit', 'hangs', { status: 'timeout' }],
    ['asleep and woken on request', 'asleep&wake', { status: 'healthy', state: 'stopped', exitCode: 0 }],
  ])('%s', async (_, id, expected) => {
    const { body } = await ask(`http://desk.test/probe?id=${id}`)
    expect(body).toMatchObject(expected)
    expect(body.calls).toEqual([['true', { timeout: 300 }]])
  })

  test('asleep: the check does not start it', async () => {
    const { body } = await ask('http://desk.test/probe?id=asleep-2')
    expect(body).toMatchObject({ status: 'asleep', state: 'stopped', calls: [] })
    expect(body).not.toHaveProperty('exitCode')
  })
})

describe('K17: previews', () => {
  test('the SDK alone responds with 500 if the binding is not named Sandbox', async () => {
    expect((await ask('http://8080-shell-u42-a1b2c3.desk.test/?plain')).status).toBe(500)
  })

  test.each([
    ['shell', 'ShellBox'],
    ['python', 'PythonBox'],
  ])('a key with the prefix %s reaches %s', async (prefix, box) => {
    const { status, body } = await ask(`http://8080-${prefix}-u42-a1b2c3.desk.test/x`)
    expect(status).toBe(200)
    expect(body).toMatchObject({ id: `${prefix}-u42`, box: expect.stringContaining(box) })
  })

  test.each([
    'http://desk.test/',
    'http://8080-ruby-u42-a1b2c3.desk.test/',
    'http://8080-constructor-u-a1.desk.test/',
  ])('is not a preview request: %s', async (url) => {
    expect(await ask(url)).toEqual({ status: 404, body: 'no preview' })
  })
})
