import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import type { SandboxHandle, SandboxProvider } from '@sandkasten/sdk'
import { LocalSandboxExecutor, type SandboxExecutor, VercelSandboxExecutor } from '@sandkasten/sdk/executor'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { afterAll, beforeAll, describe, expect, expectTypeOf, it, vi } from 'vitest'
import { reasonToSkip } from '../../packages/engine/src/isolators/oci/testing/bench.ts'
import type { SandboxExecutor as SeedExecutor } from './snippets/executor.ts'
import type { SandboxHandle as SeedHandle } from './snippets/handle.ts'
import type { SandboxProvider as SeedProvider } from './snippets/provider.ts'

const execute = promisify(execFile)
const folder = await mkdtemp(path.join(tmpdir(), 'sandkasten-seeds-'))
afterAll(() => rm(folder, { recursive: true, force: true }))
const skipped = await reasonToSkip()

/** `docs/interface.md` has the reasons for these. */
type DifferentInHandle = 'status' | 'readFile' | 'destroy' | 'runCommand'
type DifferentInProvider = 'create' | 'get' | 'list'

describe('the shapes of the Sandbox SDK seed', () => {
  it('fit, apart from a few members', () => {
    const handle = (ours: SandboxHandle): Omit<SeedHandle, DifferentInHandle> => ours
    const provider = (ours: SandboxProvider): Omit<SeedProvider, DifferentInProvider> => ours
    expectTypeOf<Parameters<SeedProvider['create']>[0]>().toExtend<Parameters<SandboxProvider['create']>[0]>()
    expectTypeOf<Parameters<SeedProvider['get']>>().toExtend<Parameters<SandboxProvider['get']>>()
    expect([handle, provider]).toHaveLength(2)
  })

  it('differ in what these return, in a way that callers can use', async () => {
    expectTypeOf<SandboxHandle['status']>().not.toExtend<SeedHandle['status']>()
    expectTypeOf<SandboxHandle['readFile']>().not.toExtend<SeedHandle['readFile']>()
    expectTypeOf<SandboxHandle['destroy']>().not.toExtend<SeedHandle['destroy']>()
    const sandbox: SandboxHandle = await new MemoryProvider().create()
    await sandbox.writeFile('a', Buffer.from('text'))
    expect(Buffer.isBuffer(await sandbox.readFile('a'))).toBe(true)
    expect((await sandbox.readFile('a')).toString()).toBe('text')
    expect(await sandbox.status()).toBe('running' satisfies Awaited<ReturnType<SeedHandle['status']>>)
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
  beforeAll(async () => {
    const [project, programs] = [path.join(folder, 'project'), path.join(folder, 'programs')]
    await Promise.all([project, programs].map((at) => mkdir(at)))
    await writeFile(path.join(project, 'hello.txt'), 'committed\n')
    const git = (...args: string[]) => execute('git', ['-C', project, ...args])
    await git('init', '--quiet')
    await git('add', '.')
    await git('-c', 'user.name=me', '-c', 'user.email=me@example.com', 'commit', '--quiet', '-m', 'first')
    await symlink('/bin/bash', path.join(programs, 'sh'))
    await writeFile(path.join(programs, 'opencode'), opencode)
    await chmod(path.join(programs, 'opencode'), 0o755)
    vi.stubEnv('SEED_PROJECT', project)
    vi.stubEnv('SEED_PROGRAMS', programs)
    vi.stubEnv('SEED_ROOT', path.join(folder, 'root'))
  })
  afterAll(() => vi.unstubAllEnvs())

  it('creates, uploads, starts the server, stores the row, and ends with a snapshot', async ({ skip }) => {
    if (skipped) skip(skipped)
    const { rows } = await import('./surroundings.ts')
    const { client, handle, provider } = await import('./snippets/full-flow.ts')
    try {
      expect(provider.name).toBe('engine')
      expect(await client.health()).toEqual({ cwd: '/workspace', file: 'committed\n' })
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

/** A server in the place of opencode: it reports its folder, and a file of the uploaded project. */
const opencode = `#!/usr/bin/python3
import http.server, json, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == '/api/health' else 404)
        self.end_headers()
        self.wfile.write(json.dumps({'cwd': os.getcwd(), 'file': open('hello.txt').read()}).encode())
args = dict(zip(sys.argv[2::2], sys.argv[3::2]))
http.server.HTTPServer((args['--hostname'], int(args['--port'])), Handler).serve_forever()
`
