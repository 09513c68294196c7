import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { LocalProvider } from '@sandkasten/sdk/local'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openRegistry, type Registry } from './index.ts'
import { openStore } from './store/index.ts'
import { sandboxRow } from './store/testing/rows.ts'
import type { ResumeTask } from './testing/resume-often.ts'

let dataDir: string
let open: Registry[]

beforeEach(async () => {
  dataDir = await mkdtemp(path.join(tmpdir(), 'sk-registry-'))
  open = []
})
afterEach(async () => {
  for (const registry of open) await registry.close()
  const provider = new LocalProvider({ root: path.join(dataDir, 'local'), acceptNoIsolation: true })
  for (const { id } of await provider.list()) await provider.destroy(id)
  await rm(dataDir, { recursive: true, force: true })
})

/** Sandboxes that are folders in the data folder, so that processes share them. */
const kinds = () => [
  {
    provider: 'local',
    title: 'Local',
    fields: [],
    make: () => new LocalProvider({ root: path.join(dataDir, 'local'), acceptNoIsolation: true }),
  },
]

async function registryHere(env: Record<string, string> = {}): Promise<Registry> {
  const registry = await openRegistry({ dataDir, kinds: kinds(), defaultProvider: 'local', env })
  open.push(registry)
  return registry
}

describe('openRegistry', () => {
  it('keeps everything in a private folder, and finds it again', async () => {
    const first = await registryHere()
    await first.in().create({ name: 'demo', envVars: { A: 'env-secret' }, threadId: 't1' })
    await first.in().setOpencodePassword('demo', 'open-sesame')
    const second = await registryHere()
    expect(second.id).toBe(first.id)
    expect(await second.in().list()).toMatchObject([{ name: 'demo', status: 'running', threads: ['t1'] }])
    expect(await second.in().opencodePassword('demo')).toBe('open-sesame')
    const folder = path.join(dataDir, 'registry')
    expect((await stat(folder)).mode & 0o777).toBe(0o700)
    for (const file of ['registry.db', 'registry.db-wal']) {
      const bytes = await readFile(path.join(folder, file), 'latin1')
      expect(bytes).not.toMatch(/env-secret|open-sesame/)
    }
  })

  it('holds a sandbox, so that others do not stop it', async () => {
    const [first, second] = [await registryHere(), await registryHere()]
    await first.in().create({ name: 'demo' })
    await using hold = await first.in().hold('demo', { purpose: 'exec npm test' })
    await expect(second.in().stop('demo')).rejects.toMatchObject({
      code: 'conflict',
      details: { uses: [{ purpose: 'exec npm test', pid: process.pid }] },
    })
    await hold.release()
    expect(await second.in().stop('demo')).toMatchObject({ status: 'stopped' })
    expect(await second.doDueWork()).toMatchObject({ failed: [] })
    expect(await second.reconcile()).toMatchObject({ failed: [], orphans: [], unreachable: [] })
  })

  it('releases its holds when it is closed', async () => {
    const [first, second] = [await registryHere(), await registryHere()]
    await first.in().create({ name: 'demo' })
    await first.in().hold('demo')
    await first.close()
    expect(await second.in().stop('demo')).toMatchObject({ status: 'stopped' })
  })

  it('allows 100 sandboxes, and 20 in a channel, by default', async () => {
    const registry = await registryHere()
    const store = await openStore({ file: path.join(dataDir, 'registry/registry.db') })
    const fill = async (count: number, channel_id: string | null) => {
      for (let at = 0; at < count; at += 1)
        await store.sandboxes.insert(sandboxRow({ name: `${channel_id ?? 'home'}-${at}`, channel_id }))
    }
    await fill(20, 'c1')
    const quota = (limit: number) => ({ code: 'quota_exceeded', details: { limit } })
    await expect(registry.in({ channelId: 'c1' }).create()).rejects.toMatchObject(quota(20))
    await fill(79, null)
    await registry.in().create()
    await expect(registry.in().create()).rejects.toMatchObject(quota(100))
    await store.close()
  })

  it('refuses work after close(), which may be called twice', async () => {
    const registry = await registryHere()
    await registry.close()
    await registry.close()
    await expect(registry.in().list()).rejects.toThrow()
  })

  it.each(['list', 'reconcile'] as const)('%s knows a misspelled provider', async (what) => {
    const registry = await registryHere()
    const ask = (provider: string) =>
      what === 'list' ? registry.in().list({ provider }) : registry.reconcile({ provider })
    await expect(ask('lokal')).rejects.toMatchObject({
      code: 'not_found',
      message: 'There is no provider “lokal”.',
      hint: 'Did you mean “local”?',
    })
    await ask('local')
    await registry.in().create({ name: 'demo' })
    await registry.close()
    // Sandboxes of a provider that this program does not have are still listed.
    const other = [{ ...kinds()[0]!, provider: 'other' }]
    await using poor = await openRegistry({ dataDir, kinds: other, env: {} })
    expect(await poor.in().list({ provider: 'local' })).toMatchObject([{ name: 'demo' }])
    expect(await poor.reconcile({ provider: 'local' })).toMatchObject({
      unreachable: [{ provider: 'local' }],
    })
  })

  it('checks a default provider that does not exist', async () => {
    await expect(
      openRegistry({ dataDir, kinds: kinds(), defaultProvider: 'lokal', env: {} }),
    ).rejects.toMatchObject({
      code: 'not_found',
      hint: expect.stringContaining('local'),
    })
  })
})

const program = new URL('./testing/resume-often.ts', import.meta.url).pathname
const node = ['--conditions=sandkasten-source', '--no-warnings', program]

it('finishes what a killed process left', async () => {
  const registry = await registryHere()
  const task: ResumeTask = { dataDir, name: 'demo', threads: 0 }
  const child = spawn(process.execPath, [...node, JSON.stringify(task)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const dead = new Promise((resolve) => child.on('exit', resolve))
  // The sandbox exists, and the process waits before it writes that down.
  await new Promise((resolve) => child.stdout.once('data', resolve))
  child.kill('SIGKILL')
  await dead
  const provider = kinds()[0]!.make()
  expect(await provider.list()).toHaveLength(1)
  expect(await registry.doDueWork()).toMatchObject({
    done: [{ sandbox: 'demo', action: expect.stringContaining('“create”') }],
    failed: [],
  })
  expect(await provider.list()).toEqual([])
  expect(await registry.in().get('demo')).toMatchObject({
    status: 'failed',
    errorMessage: expect.stringContaining('The process that created it ended'),
  })
})
