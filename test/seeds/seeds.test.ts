import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { EngineProvider } from '@sandkasten/engine'
import type {
  CommandResult,
  DetachedCommandOptions,
  RunCommandOptions,
  SandboxHandle,
  SandboxProvider,
  SandboxStatus,
} from '@sandkasten/sdk'
import { DaemonProvider } from '@sandkasten/sdk/daemon'
import { DaytonaProvider } from '@sandkasten/sdk/daytona'
import { E2BProvider } from '@sandkasten/sdk/e2b'
import { LocalSandboxExecutor, type SandboxExecutor, VercelSandboxExecutor } from '@sandkasten/sdk/executor'
import { LocalProvider } from '@sandkasten/sdk/local'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { SshProvider } from '@sandkasten/sdk/ssh'
import { VercelProvider } from '@sandkasten/sdk/vercel'
import { afterAll, beforeAll, describe, expect, expectTypeOf, it, vi } from 'vitest'
import {
  reasonToSkipAnyone,
  type TestStore,
  testStore,
  writeLayout,
} from '../../packages/engine/src/images/testing/image.ts'
import {
  file as fileEntry,
  folder as folderEntry,
  symlink,
  tar,
} from '../../packages/engine/src/images/testing/tar.ts'
import { staticBusybox } from '../../packages/engine/src/images/testing/tools.ts'
import { reasonToSkip } from '../../packages/engine/src/isolators/oci/testing/bench.ts'
import type { SandboxExecutor as SeedExecutor } from './snippets/executor.ts'
import type { SandboxHandle as SeedHandle, SandboxStatus as SeedStatus } from './snippets/handle.ts'
import type { SandboxProvider as SeedProvider } from './snippets/provider.ts'

const execute = promisify(execFile)
const folder = await mkdtemp(path.join(tmpdir(), 'sandkasten-seeds-'))
afterAll(() => rm(folder, { recursive: true, force: true }))
const skipped = await reasonToSkip()

/** Members whose types differ. `docs/interface.md` has the reason for each, and the tests below say how far they fit. */
type DifferentInHandle = 'status' | 'readFile' | 'destroy' | 'runCommand'
type DifferentInProvider = 'create' | 'get' | 'list'
type FittingHandle = Omit<SeedHandle, DifferentInHandle>
type SeedCommand = Parameters<SeedHandle['runCommand']>[0]

describe('the shapes of the Sandbox SDK seed', () => {
  it('fit, apart from a few members', () => {
    expectTypeOf<SandboxHandle>().toExtend<FittingHandle>()
    expectTypeOf<SandboxProvider>().toExtend<Omit<SeedProvider, DifferentInProvider>>()
  })

  it('differ in no member that fits', () => {
    expectTypeOf<SandboxHandle['status']>().not.toExtend<SeedHandle['status']>()
    expectTypeOf<SandboxHandle['readFile']>().not.toExtend<SeedHandle['readFile']>()
    expectTypeOf<SandboxHandle['destroy']>().not.toExtend<SeedHandle['destroy']>()
    expectTypeOf<SandboxHandle['runCommand']>().not.toExtend<SeedHandle['runCommand']>()
    expectTypeOf<SandboxProvider['create']>().not.toExtend<SeedProvider['create']>()
    expectTypeOf<SandboxProvider['get']>().not.toExtend<SeedProvider['get']>()
    expectTypeOf<SandboxProvider['list']>().not.toExtend<SeedProvider['list']>()
  })

  it('runCommand: every call of the seed compiles, and a result is the seed’s result', () => {
    expectTypeOf<Omit<SeedCommand, 'detached'>>().toExtend<RunCommandOptions>()
    expectTypeOf<SeedCommand & { detached?: false }>().toExtend<RunCommandOptions>()
    expectTypeOf<SeedCommand & { detached: true }>().toExtend<DetachedCommandOptions>()
    expectTypeOf<CommandResult>().toExtend<Awaited<ReturnType<SeedHandle['runCommand']>>>()
  })

  it('create, get and list: the arguments are the seed’s, and the results fit apart from these members', () => {
    expectTypeOf<Parameters<SeedProvider['create']>>().toExtend<Parameters<SandboxProvider['create']>>()
    expectTypeOf<Parameters<SeedProvider['get']>>().toExtend<Parameters<SandboxProvider['get']>>()
    expectTypeOf<Parameters<SeedProvider['list']>>().toExtend<Parameters<SandboxProvider['list']>>()
    expectTypeOf<Awaited<ReturnType<SandboxProvider['create']>>>().toExtend<FittingHandle>()
    expectTypeOf<Awaited<ReturnType<SandboxProvider['get']>>>().toExtend<FittingHandle>()
    type SeedInfos = Array<Omit<Awaited<ReturnType<SeedProvider['list']>>[number], 'status'>>
    expectTypeOf<Awaited<ReturnType<SandboxProvider['list']>>>().toExtend<SeedInfos>()
  })

  it('status, readFile and destroy: callers can use what they return', async () => {
    expectTypeOf<SeedStatus>().toExtend<SandboxStatus>()
    expectTypeOf<Exclude<SandboxStatus, SeedStatus>>().toEqualTypeOf<'paused' | 'archived' | 'unknown'>()
    const sandbox: SandboxHandle = await new MemoryProvider().create()
    await sandbox.writeFile('a', Buffer.from('text'))
    expect(Buffer.isBuffer(await sandbox.readFile('a'))).toBe(true)
    expect((await sandbox.readFile('a')).toString()).toBe('text')
    expect(await sandbox.status()).toBe('running' satisfies SeedStatus)
    expect([await sandbox.destroy(), await sandbox.destroy()]).toEqual([true, false])
  })
})

describe('create({ ports, runtime, envVars }) of the Sandbox SDK seed', () => {
  it.each<SandboxProvider>([
    new DaemonProvider({ url: 'http://127.0.0.1:1', apiKey: 'k' }),
    new DaytonaProvider({ apiKey: 'k' }),
    new E2BProvider({ apiKey: 'k' }),
    new EngineProvider({ isolator: 'oci' }),
    new EngineProvider({ isolator: 'docker' }),
    new EngineProvider({ isolator: 'process', acceptNoIsolation: true }),
    new LocalProvider({ acceptNoIsolation: true }),
    new MemoryProvider(),
    new SshProvider({ host: 'h', username: 'me', acceptNoIsolation: true }),
    new VercelProvider({ token: 't', teamId: 't', projectId: 'p' }),
  ])('is accepted by $name', ({ createOptions }) => {
    expect([...createOptions]).toEqual(expect.arrayContaining(['ports', 'runtime', 'envVars']))
  })
})

describe('autoDetectProvider of the Sandbox SDK seed', () => {
  const names = ['DAYTONA_API_KEY', 'VERCEL_TOKEN', 'VERCEL_TEAM_ID', 'VERCEL_PROJECT_ID']

  it.each([
    [{}, undefined],
    [{ VERCEL_TOKEN: 't', VERCEL_TEAM_ID: 't' }, undefined],
    [{ VERCEL_TOKEN: 't', VERCEL_TEAM_ID: 't', VERCEL_PROJECT_ID: 'p' }, 'vercel'],
    [{ DAYTONA_API_KEY: 'k', VERCEL_TOKEN: 't', VERCEL_TEAM_ID: 't', VERCEL_PROJECT_ID: 'p' }, 'daytona'],
  ])('%o selects %s', async (env: Record<string, string>, provider) => {
    for (const name of names) vi.stubEnv(name, env[name])
    const { autoDetectProvider } = await import('./snippets/auto-detect.ts')
    expect(autoDetectProvider()?.name).toBe(provider)
    vi.unstubAllEnvs()
  })
})

describe('the full flow of the Sandbox SDK seed, on the engine', () => {
  const busybox = staticBusybox()
  const missing = skipped ?? reasonToSkipAnyone ?? (busybox ? undefined : 'needs a static busybox')
  let bench: TestStore
  beforeAll(async () => {
    if (missing) return
    bench = await testStore()
    const { path: layout } = writeLayout(path.join(folder, 'image'), {
      layers: [seedLayer(readFileSync(busybox!))],
      config: { Env: ['PATH=/bin'] },
    })
    await bench.store.import(layout, { name: 'seed' })
    const project = path.join(folder, 'project')
    await mkdir(project)
    await writeFile(path.join(project, 'hello.txt'), 'committed\n')
    const git = (...args: string[]) => execute('git', ['-C', project, ...args])
    await git('init', '--quiet')
    await git('add', '.')
    await git('-c', 'user.name=me', '-c', 'user.email=me@example.com', 'commit', '--quiet', '-m', 'first')
    vi.stubEnv('SEED_PROJECT', project)
    vi.stubEnv('SEED_ROOT', bench.root)
  })
  afterAll(() => {
    vi.unstubAllEnvs()
    bench?.[Symbol.dispose]()
  })

  it('creates, uploads, starts the server, stores the row, and ends with a snapshot', async ({ skip }) => {
    if (missing) skip(missing)
    const { rows } = await import('./surroundings.ts')
    const { client, handle, provider } = await import('./snippets/full-flow.ts')
    try {
      expect(provider.name).toBe('engine')
      expect(handle.ports).toEqual([7777])
      const { stdout } = await handle.runCommand({ cmd: 'env' })
      expect(stdout).toContain('KIMAKI_DB_URL=http://127.0.0.1:8080\n')
      expect(await client.health()).toEqual({ cwd: '/workspace', file: 'committed' })
      expect(rows).toEqual([
        { data: expect.objectContaining({ provider: 'engine', provider_sandbox_id: handle.sandboxId }) },
      ])
      await import('./snippets/heartbeat.ts')
      expect(rows[1]).toMatchObject({ data: { status: 'stopped', snapshot_id: expect.any(String) } })
    } finally {
      await handle.destroy()
      await provider
        .listSnapshots()
        .then((all) => Promise.all(all.map((one) => provider.deleteSnapshot(one.snapshotId))))
      await (provider as EngineProvider).close()
    }
  })
})

describe('the executor seed', () => {
  it('its interface fits all executors', () => {
    expectTypeOf<SandboxExecutor>().toExtend<SeedExecutor>()
    expectTypeOf<LocalSandboxExecutor>().toExtend<SeedExecutor>()
    expectTypeOf<VercelSandboxExecutor>().toExtend<SeedExecutor>()
  })

  it('its factory selects an executor, which runs a conversation', async () => {
    vi.stubEnv('SANDKASTEN_HOME', folder)
    try {
      const { getSandboxExecutor } = await import('./snippets/get-executor.ts')
      vi.stubEnv('VERCEL', '1')
      expect(getSandboxExecutor()).toBeInstanceOf(VercelSandboxExecutor)
      vi.stubEnv('VERCEL', undefined)
      const executor = getSandboxExecutor()
      expect(executor).toBeInstanceOf(LocalSandboxExecutor)
      await executor.writeFile('dir/a.txt', Buffer.from('text'))
      expect(await executor.execute('cat', ['dir/a.txt'])).toMatchObject({ stdout: 'text', exitCode: 0 })
      expect([await executor.listFiles(), await executor.readFile('missing')]).toEqual([['dir'], null])
      await executor.cleanup()
      expect(await executor.listFiles()).toEqual([])
      await executor.cleanup()
      await import('./snippets/session.ts')
    } finally {
      vi.unstubAllEnvs()
    }
  })
})

/** Busybox, whose `sh` knows `source`, and a server in the place of opencode: it reports its folder and a file. */
function seedLayer(busybox: Buffer): Buffer {
  const names = ['cat', 'env', 'gunzip', 'httpd', 'mkdir', 'rm', 'sh', 'tar', 'which']
  return tar([
    folderEntry('bin'),
    fileEntry('bin/busybox', busybox, { mode: 0o755 }),
    fileEntry('bin/opencode', opencode, { mode: 0o755 }),
    ...names.map((name) => symlink(`bin/${name}`, 'busybox')),
  ])
}

const opencode = `#!/bin/sh
# opencode serve --port 7777 --hostname 0.0.0.0
mkdir -p /tmp/www/api
printf '{"cwd":"%s","file":"%s"}' "$PWD" "$(cat hello.txt)" > /tmp/www/api/health
exec httpd -f -p "$5:$3" -h /tmp/www
`
