import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { EngineProvider } from '@sandkasten/engine'
import { type SandboxProvider, supports } from '@sandkasten/sdk'
import { LocalProvider } from '@sandkasten/sdk/local'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { afterAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { labels } from '../context.ts'
import type { DatabaseLocation } from '../store/index.ts'
import type { ProgressStep } from '../types.ts'
import { openTestRegistry, type TestRegistry } from './testing/registry.ts'

/** The behaviour of named sandboxes that no provider may change. */

const isRoot = process.getuid?.() === 0
const folder = mkdtempSync(path.join(tmpdir(), 'sk-life-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

interface Kind {
  readonly name: string
  readonly make: () => SandboxProvider
  /** A test double runs only programs that the test scripts. */
  readonly hasGit: boolean
}

let count = 0
const kinds: Kind[] = [
  { name: 'memory', make: () => new MemoryProvider(), hasGit: false },
  {
    name: 'local',
    make: () => new LocalProvider({ root: path.join(folder, `local-${count++}`), acceptNoIsolation: true }),
    hasGit: true,
  },
  ...(isRoot
    ? [
        {
          name: 'engine',
          make: () => new EngineProvider({ root: path.join(folder, `engine-${count++}`) }),
          hasGit: true,
        },
      ]
    : []),
]
if (!isRoot) describe.skip('on the engine (skipped: it is tested as root)', () => {})

for (const kind of kinds) {
  // The provider decides the behaviour; one of them is enough to compare the databases.
  if (kind.name === 'memory')
    describeOnEachDatabase('named sandboxes on memory', (place) => namedSandboxes(kind, place))
  else
    describe(`named sandboxes on ${kind.name}`, () =>
      namedSandboxes(kind, async () => ({ file: path.join(folder, `${count++}.db`) })))
}

function namedSandboxes({ make, hasGit }: Kind, place: () => Promise<DatabaseLocation>): void {
  let provider: SandboxProvider
  let registry: TestRegistry
  let location: DatabaseLocation

  beforeEach(async () => {
    provider = make()
    location = await place()
    registry = await openTestRegistry(location, provider, {
      timeouts: { lookMs: 20_000, cleanUpMs: 20_000, changeMs: 60_000 },
    })
    onTestFinished(async () => {
      for (const { id } of await provider.list()) await provider.destroy(id)
      await (provider as Partial<AsyncDisposable>)[Symbol.asyncDispose]?.()
    })
  })

  const ids = async () => (await provider.list()).map(({ sandboxId }) => sandboxId)
  /** The newest row of the name, also a tombstone. */
  const rowOf = async (name: string) => {
    const rows = await registry.context.store.sandboxes.list(
      { app_id: '', guild_id: '' },
      { destroyed: true },
    )
    return rows.find((row) => row.name === name)!
  }
  const create = (name = 'demo') => registry.sandboxes.create({ name })

  it('are created with our labels, and found by their names in another process', async () => {
    const steps: ProgressStep[] = []
    const made = await registry.sandboxes.create({
      name: 'demo',
      label: 'For the tests',
      labels: { mine: 'yes' },
      threadId: 'thread-1',
      onProgress: (step) => steps.push(step),
    })
    expect(made.record).toMatchObject({
      name: 'demo',
      provider: provider.name,
      providerSandboxId: made.handle.sandboxId,
      status: 'running',
      incarnation: 1,
      label: 'For the tests',
      directory: made.handle.workdir,
      threads: ['thread-1'],
      uses: [],
    })
    expect(made.incarnation).toBe(1)
    expect(steps.map(({ step }) => step)).toEqual(['create', 'done'])
    const [info] = await provider.list()
    expect(info).toMatchObject({
      labels: {
        mine: 'yes',
        [labels.registry]: registry.context.registryId,
        [labels.sandbox]: made.record.id,
        [labels.attempt]: '1',
      },
    })
    const other = await openTestRegistry(location, provider)
    expect(await other.sandboxes.get('demo')).toEqual(await registry.sandboxes.get('demo'))
    const again = await other.sandboxes.resume('demo')
    await made.handle.writeFile('note', 'same')
    expect(await again.handle.files.readFile('note', 'utf8')).toBe('same')
    expect(again.incarnation).toBe(1)
  })

  it('keep their disk when they are stopped and started', async () => {
    const { handle } = await create()
    await handle.writeFile('note', 'kept')
    expect(await registry.sandboxes.stop('demo')).toMatchObject({ status: 'stopped', incarnation: 1 })
    expect((await provider.list())[0]!.status).toBe('stopped')
    // Stopping twice is no error.
    expect(await registry.sandboxes.stop('demo')).toMatchObject({ status: 'stopped' })
    const started = await registry.sandboxes.start('demo')
    expect(started).toMatchObject({ incarnation: 2, record: { status: 'running', incarnation: 2 } })
    expect(await started.handle.files.readFile('note', 'utf8')).toBe('kept')
    await expect(handle.runCommand({ cmd: 'true' })).rejects.toMatchObject({ code: 'interrupted' })
    expect(await ids()).toHaveLength(1)
  })

  it('that somebody stopped are started, and the row learns of it', async () => {
    const { handle } = await create()
    await provider.get(handle.id, { resume: false }).then((other) => other.stop())
    const started = await registry.sandboxes.resume('demo')
    expect(started.incarnation).toBe(2)
    expect(await started.handle.status()).toBe('running')
  })

  it('that are gone are restored from their snapshot, with settings and environment', async () => {
    const { handle } = await registry.sandboxes.create({
      name: 'demo',
      envVars: { TOKEN: 'not-in-the-snapshot' },
      labels: { mine: 'yes' },
    })
    await handle.writeFile('note', 'saved')
    const { snapshotId } = await registry.sandboxes.snapshot('demo')
    await handle.writeFile('note', 'later')
    await provider.destroy(handle.sandboxId)
    const restored = await registry.sandboxes.resume('demo')
    expect(restored).toMatchObject({ incarnation: 2, record: { status: 'running', snapshotId } })
    expect(restored.handle.sandboxId).not.toBe(handle.sandboxId)
    expect(await restored.handle.files.readFile('note', 'utf8')).toBe('saved')
    expect((await provider.list())[0]!.labels).toMatchObject({
      mine: 'yes',
      [labels.sandbox]: restored.record.id,
    })
    expect(await ids()).toEqual([restored.handle.sandboxId])
    if (hasGit) {
      const { stdout } = await restored.handle.runCommand({ cmd: 'sh', args: ['-c', 'echo $TOKEN'] })
      expect(stdout).toBe('not-in-the-snapshot\n')
    }
    expect((await rowOf('demo')).env).not.toContain('not-in-the-snapshot')
  })

  it('that are gone without a snapshot say so, and the name can be used again', async () => {
    const { handle } = await create()
    await handle.destroy()
    await expect(registry.sandboxes.resume('demo')).rejects.toMatchObject({
      code: 'not_found',
      message: expect.stringContaining('no snapshot'),
      hint: expect.stringContaining("create({ name: 'demo' })"),
    })
    expect(await registry.sandboxes.get('demo')).toMatchObject({
      status: 'failed',
      errorMessage: expect.stringContaining('no longer exists'),
      providerSandboxId: undefined,
    })
    await expect(registry.sandboxes.stop('demo')).rejects.toMatchObject({ code: 'not_found' })
    expect(await create()).toMatchObject({ incarnation: 1 })
  })

  it('are destroyed once, with their secrets, threads and name', async () => {
    await registry.sandboxes.create({ name: 'demo', envVars: { A: 'secret-value' }, threadId: 'thread-1' })
    await registry.sandboxes.setOpencodePassword('demo', 'open sesame')
    expect(await registry.sandboxes.destroy('demo')).toEqual({ existed: true, threads: ['thread-1'] })
    expect(await ids()).toEqual([])
    expect(await rowOf('demo')).toMatchObject({
      live: 0,
      status: 'destroyed',
      env: null,
      opencode_password: null,
    })
    expect(await registry.sandboxes.ofThread('thread-1')).toBeUndefined()
    await expect(registry.sandboxes.destroy('demo')).rejects.toMatchObject({ code: 'not_found' })
    await expect(registry.sandboxes.resume('demo')).rejects.toMatchObject({ code: 'not_found' })
    expect(await registry.sandboxes.list()).toEqual([])
    expect(await registry.sandboxes.list({ destroyed: true })).toMatchObject([
      { name: 'demo', status: 'destroyed' },
    ])
    await create()
  })

  it('that are gone already are destroyed, too', async () => {
    const { handle } = await create()
    await handle.destroy()
    expect(await registry.sandboxes.destroy('demo')).toEqual({ existed: false, threads: [] })
  })

  it('keep the snapshots of callers, and only the last one of the registry', async () => {
    if (!supports(provider, 'snapshot')) throw new Error('Each of these providers has snapshots.')
    const { record } = await create()
    const own = await registry.sandboxes.snapshot('demo', { snapshotName: 'mine' })
    const { snapshot } = await import('./snapshot.ts')
    const auto = () =>
      registry.context.leases.operate(record.id, 'snapshot', (lease) =>
        snapshot({ context: registry.context, lease }, { auto: true }),
      )
    const first = await auto()
    const second = await auto()
    const kept = async () => (await provider.listSnapshots()).map(({ snapshotId }) => snapshotId)
    expect((await kept()).sort()).toEqual([own.snapshotId, second!.snapshotId].sort())
    expect(first!.snapshotId).not.toBe(second!.snapshotId)
    expect(await registry.sandboxes.get('demo')).toMatchObject({ snapshotId: second!.snapshotId })
    expect(await registry.sandboxes.destroy('demo')).toEqual({ existed: true, threads: [] })
    expect(await kept()).toEqual([own.snapshotId])
    await provider.deleteSnapshot(own.snapshotId)
  })

  it('are renamed while they are used', async () => {
    const { handle, record } = await create()
    await handle.writeFile('note', 'same')
    await create('taken')
    await expect(registry.sandboxes.rename('demo', 'taken')).rejects.toMatchObject({ code: 'conflict' })
    await expect(registry.sandboxes.rename('demo', 'No Name')).rejects.toMatchObject({
      code: 'invalid_argument',
    })
    expect(await registry.sandboxes.rename('demo', 'other')).toMatchObject({ id: record.id, name: 'other' })
    await expect(registry.sandboxes.get('demo')).rejects.toMatchObject({ code: 'not_found' })
    expect(await handle.files.readFile('note', 'utf8')).toBe('same')
    expect((await registry.sandboxes.resume('other')).handle.sandboxId).toBe(handle.sandboxId)
  })

  it('tell their status after a refresh', async () => {
    await create()
    const { handle } = await create('stopped')
    const gone = await create('gone')
    await (await provider.get(handle.id, { resume: false })).stop()
    await gone.handle.destroy()
    const statuses = (all: Array<{ name: string; status: string }>) =>
      Object.fromEntries(all.map(({ name, status }) => [name, status]))
    expect(statuses(await registry.sandboxes.list())).toEqual({
      demo: 'running',
      stopped: 'running',
      gone: 'running',
    })
    const refreshed = await registry.sandboxes.list({ refresh: { timeoutMs: 20_000 } })
    expect(statuses(refreshed)).toEqual({ demo: 'running', stopped: 'stopped', gone: 'failed' })
    expect(refreshed.every(({ lastCheckedAt }) => lastCheckedAt !== undefined)).toBe(true)
    expect(statuses(await registry.sandboxes.list({ status: 'running' }))).toEqual({ demo: 'running' })
  })

  if (hasGit)
    it('get a project that is uploaded or cloned', async () => {
      const project = path.join(folder, `project-${count++}`)
      mkdirSync(project)
      const git = (...args: string[]) => execFileSync('git', ['-C', project, ...args], { stdio: 'pipe' })
      git('init', '-q')
      writeFileSync(path.join(project, 'README'), 'hello')
      git('add', '.')
      git('-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qm', 'first')
      const steps: ProgressStep[] = []
      const uploaded = await registry.sandboxes.create({
        name: 'up',
        upload: project,
        onProgress: (s) => steps.push(s),
      })
      const readme = `${uploaded.record.directory}/README`
      expect(await uploaded.handle.files.readFile(readme, 'utf8')).toBe('hello')
      expect(new Set(steps.map(({ step }) => step))).toEqual(new Set(['create', 'upload', 'done']))
      await expect(
        registry.sandboxes.create({ name: 'missing', upload: path.join(folder, 'nowhere') }),
      ).rejects.toMatchObject({ code: 'invalid_argument' })
      await expect(
        registry.sandboxes.create({ name: 'bad', repo: path.join(folder, 'nowhere') }),
      ).rejects.toMatchObject({ code: 'provider_error' })
      expect(await registry.sandboxes.get('bad')).toMatchObject({
        status: 'failed',
        errorMessage: expect.stringContaining('git could not clone'),
      })
      expect(await ids()).toEqual([uploaded.handle.sandboxId])
    })
}
