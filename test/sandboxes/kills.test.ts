import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { providerKinds } from '@sandkasten/sdk/auto'
import { DaemonProvider } from '@sandkasten/sdk/daemon'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { openRegistry, type SandboxRecord } from '../../packages/registry/src/index.ts'
import { random as randomOf } from '../random.ts'
import type { KilledTask } from './killed.ts'

/** `SEED=7 KILLS=1000` repeats the choices of a run, or makes a longer one. */
const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31))
const wantedKills = Number(process.env.KILLS ?? 200)
const random = randomOf(seed)

const names = ['one', 'two', 'three']
const kept = 'kept'
const secret = 'sk-value-of-a-variable'
let daemon: TestDaemon
let provider: DaemonProvider
let dataDir: string
const children = new Set<ChildProcess>()
/** How often a process was killed in each operation. */
const killedIn: Record<string, number> = {}

beforeAll(async () => {
  daemon = await startTestDaemon({ quotas: { snapshots: 10_000 } })
  provider = new DaemonProvider({ url: daemon.daemon.url, apiKey: daemon.key })
  dataDir = await mkdtemp(path.join(tmpdir(), 'sk-kills-'))
})
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL')
  await daemon?.stop()
  await rm(dataDir, { recursive: true, force: true })
  console.log(`SEED=${seed}, killed in ${JSON.stringify(killedIn)}`)
})

/**
 * Two processes at a time create, resume, stop, save and destroy the same sandboxes, rotate the key and compare, until
 * both are killed at a random moment. The next process must find everything explained and usable.
 */
it('processes that are killed lose no sandbox, no name and no credential', { timeout: 900_000 }, async () => {
  {
    await using registry = await open()
    await registry.credentials.setup('daemon', { url: daemon.daemon.url, apiKey: daemon.key })
    const { handle } = await registry.in().create({ name: kept, envVars: { SECRET: secret } })
    await handle.files.writeFile('file', 'kept')
  }
  let output = ''
  let next = start()
  for (let kills = 0; kills < wantedKills; kills += 2) {
    const pair = await next
    const moments = pair.map(() => random.below(400))
    for (const child of pair) child.begin()
    const ended = pair.map(async (child, at) => {
      await child.ready
      await new Promise((resolve) => setTimeout(resolve, moments[at]))
      return child.kill()
    })
    for (const said of await Promise.all(ended)) {
      output += said
      expect(said).not.toContain('unexpected')
      const [, what = 'nothing'] = /begin (\w+) \w+\n$/.exec(said) ?? []
      killedIn[what] = (killedIn[what] ?? 0) + 1
    }
    next = start()
    await verify(kills)
  }
  for (const child of await next) await child.kill()
  expect(output).not.toContain(secret)
  expect(output).not.toContain(daemon.key)
  const wanted = wantedKills < 200 ? [] : ['create', 'resume', 'snapshot', 'destroy', 'rotate']
  expect(Object.keys(killedIn)).toEqual(expect.arrayContaining(wanted))
})

/** Starts two processes, which wait for their task. */
async function start() {
  return [0, 1].map(() => {
    const script = path.join(import.meta.dirname, 'killed.ts')
    const child = spawn(process.execPath, ['--conditions=sandkasten-source', '--no-warnings', script], {
      stdio: 'pipe',
      env: { PATH: process.env.PATH },
    })
    children.add(child)
    const task: KilledTask = { dataDir, seed: random.below(2 ** 31), names, kept, secret }
    let output = ''
    const ready = new Promise<void>((resolve, reject) => {
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', (data) => {
          output += String(data)
          if (output.includes('ready')) resolve()
        })
      child.once('close', () => reject(new Error(`It ended by itself: ${output}`)))
    })
    ready.catch(() => {})
    return {
      ready,
      begin: () => child.stdin.end(JSON.stringify(task)),
      async kill() {
        const ended = once(child, 'close')
        child.kill('SIGKILL')
        expect((await ended)[1], output).toBe('SIGKILL')
        children.delete(child)
        return output
      },
    }
  })
}

async function verify(kills: number): Promise<void> {
  await using registry = await open()
  const sandboxes = registry.in()
  // Operations of dead processes are due at once. Afterwards no row is without an explanation.
  expect(await registry.doDueWork()).toMatchObject({ failed: [] })
  for (const row of await sandboxes.list()) expectExplained(row)
  // A listing shows what no process wrote down. A request that a dead process had sent can still be at work at the daemon.
  let rows: SandboxRecord[] = []
  await expect
    .poll(async () => {
      expect(await registry.reconcile()).toMatchObject({ failed: [], unreachable: [] })
      rows = await sandboxes.list()
      const ids = rows.flatMap(({ providerSandboxId }) => providerSandboxId ?? [])
      const there = (await provider.list()).filter(({ status }) => status !== 'destroyed')
      return difference(
        there.map(({ sandboxId }) => sandboxId),
        ids,
      )
    })
    .toEqual([])
  for (const row of rows) expectExplained(row)
  expect(rows.map(({ name }) => name)).toContain(kept)
  await expect.poll(() => readFileOf(sandboxes, kept)).toBe('kept')

  // Every name can be used: what exists starts or says why not, and another can take its place.
  const name = names[(kills / 2) % names.length]!
  const row = rows.find((one) => one.name === name)
  if (row) {
    const problem = await sandboxes.resume(name).then(
      () => undefined,
      (error: unknown) => error,
    )
    if (problem !== undefined) {
      expect(row.status).toBe('failed')
      expect(problem).toSatisfy((error) => SandboxError.is(error, 'not_found'))
      expect(String(problem)).toContain(row.errorMessage)
    }
    await sandboxes.destroy(name)
  }
  await sandboxes.create({ name, envVars: { SECRET: secret } })

  const folder = path.join(dataDir, 'registry')
  for (const file of await readdir(folder)) {
    const bytes = await readFile(path.join(folder, file), 'latin1')
    expect(bytes.includes(secret), file).toBe(false)
    expect(bytes.includes(daemon.key), file).toBe(false)
  }
}

function expectExplained(row: SandboxRecord): void {
  expect(['running', 'paused', 'stopped', 'failed'], row.name).toContain(row.status)
  if (row.status === 'failed') expect(row.errorMessage, row.name).toMatch(/\w/)
  if (row.status === 'running') expect(row.providerSandboxId, row.name).toBeDefined()
}

type Sandboxes = ReturnType<Awaited<ReturnType<typeof open>>['in']>

/** What the file has, or `not_running` if a late request has stopped the sandbox again. */
async function readFileOf(sandboxes: Sandboxes, name: string): Promise<string> {
  const { handle } = await sandboxes.resume(name)
  return handle.files.readFile('file', 'utf8').catch((error: unknown) => {
    if (SandboxError.is(error, 'not_running', 'interrupted')) return error.code
    throw error
  })
}

/** Sandboxes without a row, and rows without a sandbox. */
function difference(there: readonly string[], ids: readonly string[]): string[] {
  return [...there.filter((id) => !ids.includes(id)), ...ids.filter((id) => !there.includes(id))]
}

function open() {
  const kinds = providerKinds.filter(({ provider }) => provider === 'daemon')
  return openRegistry({ dataDir, kinds, env: {} })
}
