import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type SpawnedDaemon, spawnDaemon } from '../../src/testing/spawn-daemon.ts'

/** An unhandled error fails only the request that caused it. */
const key = 'sk-test-0123456789abcdef'
let folder: string
let daemon: SpawnedDaemon
let base: string
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'sk-defects-'))
  daemon = await spawnDaemon(
    { listen: '127.0.0.1:0', data_dir: folder, api_key: key, log_level: 'silent' },
    path.join(import.meta.dirname, '../../src/testing/defective-child.ts'),
  )
  base = `/v1/sessions/${(await call('POST', '/v1/sessions', {})).json.id}`
})
afterAll(async () => {
  await daemon?.end('SIGTERM')
  await rm(folder, { recursive: true, force: true })
})

const call = async (method: string, where: string, body?: unknown) => {
  const response = await fetch(`${daemon.url}${where}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
  return { status: response.status, text, json: text.startsWith('{') ? (JSON.parse(text) as any) : {} }
}

it.each([
  ['throws', 'exception'],
  ['rejects', 'rejection'],
])('a command that %s outside of all promises is answered 500; others are served', async (cmd, kind) => {
  const beside = call('POST', `${base}/run`, { cmd: 'other' })
  const failed = await call('POST', `${base}/run`, { cmd })
  expect(failed.status).toBe(500)
  expect(failed.json.code).toBe('internal')
  expect((await beside).json.stdout).toBe('fine')
  expect((await call('POST', `${base}/run`, { cmd: 'other' })).json.stdout).toBe('fine')
  const { text } = await call('GET', '/metrics')
  expect(text).toContain(`sandkasten_defects_total{kind="${kind}"} 1`)
  expect(daemon.process.exitCode).toBeNull()
})
