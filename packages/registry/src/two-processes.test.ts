import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { LocalProvider } from '@sandkasten/sdk/local'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { NewDatabase } from '../../database/src/testing/each-database.ts'
import { describeOnEachDatabase } from '../../database/src/testing/each-database.ts'
import { openRegistry, type Registry } from './index.ts'
import type { DatabaseLocation } from './store/index.ts'
import type { Resumed, ResumeTask } from './testing/resume-often.ts'

const program = new URL('./testing/resume-often.ts', import.meta.url).pathname
const threads = 50

describeOnEachDatabase('two processes with 50 threads each', (place: NewDatabase) => {
  let dataDir: string
  let database: DatabaseLocation
  let registry: Registry
  let provider: LocalProvider

  beforeEach(async () => {
    dataDir = await mkdtemp(path.join(tmpdir(), 'sk-two-'))
    database = await place()
    provider = new LocalProvider({ root: path.join(dataDir, 'local'), acceptNoIsolation: true })
    const kinds = [{ provider: 'local', title: 'Local', fields: [], make: () => provider }]
    registry = await openRegistry({ dataDir, database, kinds, defaultProvider: 'local', env: {} })
  })
  afterEach(async () => {
    await registry?.close()
    for (const { id } of await provider.list()) await provider.destroy(id)
    await rm(dataDir, { recursive: true, force: true })
  })

  const stopped = async () => {
    const { handle } = await registry.in().create({ name: 'demo' })
    await registry.in().stop('demo')
    return handle.sandboxId
  }
  /** Runs both processes. Neither begins before both are ready. */
  const run = async (tasks: ReadonlyArray<Partial<ResumeTask>>): Promise<Resumed[]> => {
    const children = tasks.map((task) => startProcess({ dataDir, database, name: 'demo', threads, ...task }))
    await Promise.all(children.map(({ ready }) => ready))
    for (const child of children) child.begin()
    return Promise.all(children.map(({ result }) => result))
  }

  it('get one start of one sandbox', async () => {
    const id = await stopped()
    const all = await run([{}, {}])
    expect(all.flatMap(({ errors }) => errors)).toEqual([])
    expect(all.flatMap(({ incarnations }) => incarnations)).toEqual(Array(2 * threads).fill(2))
    expect(new Set(all.flatMap(({ ids }) => ids))).toEqual(new Set([id]))
    expect(new Set(all.flatMap(({ uses }) => uses))).toEqual(new Set(['exit 0']))
    expect(all.reduce((sum, { starts }) => sum + starts, 0)).toBe(1)
  })

  it('get no second sandbox when one of them destroys it meanwhile', async () => {
    const id = await stopped()
    const all = await run([{ destroys: true }, { outlives: true }])
    const [ids, errors, uses] = [
      all.flatMap((one) => one.ids),
      all.flatMap((one) => one.errors),
      all.flatMap((one) => one.uses),
    ]
    // The destroy waits for the start, so the threads that waited for it have a handle.
    expect(ids.length).toBeGreaterThan(0)
    expect(ids.length + errors.length).toBe(2 * threads)
    expect(new Set(ids)).toEqual(new Set([id]))
    expect(new Set(all.flatMap(({ incarnations }) => incarnations))).toEqual(new Set([2]))
    for (const code of [...errors, ...uses]) expect(['interrupted', 'not_found']).toContain(code)
    expect(all.map(({ creates }) => creates)).toEqual([0, 0])
    expect(all.reduce((sum, { starts }) => sum + starts, 0)).toBe(1)
    expect(await provider.list()).toEqual([])
    expect(await registry.in().list()).toEqual([])
    expect(await registry.reconcile()).toMatchObject({ orphans: [], failed: [] })
  })
})

function startProcess(task: ResumeTask) {
  const child = spawn(
    process.execPath,
    ['--conditions=sandkasten-source', '--no-warnings', program, JSON.stringify(task)],
    { stdio: 'pipe' },
  )
  let output = ''
  const ready = Promise.withResolvers<void>()
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (data) => {
      output += String(data)
      if (output.includes('ready\n')) ready.resolve()
    })
  const result = new Promise<Resumed>((resolve, reject) =>
    child.once('close', (code, signal) => {
      const failure = new Error(`It ended with ${code ?? signal}: ${output}`)
      ready.reject(failure)
      if (code !== 0) reject(failure)
      else resolve(JSON.parse(output.trim().split('\n').at(-1)!) as Resumed)
    }),
  )
  return { ready: ready.promise, begin: () => void child.stdin.end('go\n'), result }
}
