import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { EngineProvider } from '@sandkasten/engine'
import { SandboxClient } from '@sandkasten/sdk/client'
import { DaemonProvider } from '@sandkasten/sdk/daemon'
import { runVolumeBehaviour, volumeBehaviours, volumeConformance } from '@sandkasten/sdk/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inProcess } from '../../packages/cli/test/helper.ts'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { brokenVolumes } from '../../packages/sdk/src/testing/broken/volumes.ts'

const execute = promisify(execFile)
const missing = await isolationMissing()

describe.skipIf(missing)(`volumes${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let folder: string
  let engine: EngineProvider
  let daemon: TestDaemon
  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'sandkasten-volume-kit-'))
    engine = new EngineProvider({ isolator: 'oci', root: folder })
    daemon = await startTestDaemon({ isolator: 'oci' })
  })
  afterAll(async () => {
    await engine?.close()
    await daemon?.stop()
    if (folder) await rm(folder, { recursive: true, force: true })
  })
  const connection = () => ({ url: daemon.daemon.url, apiKey: daemon.key })

  volumeConformance({
    title: 'of the engine',
    runner: { describe, it },
    provider: () => engine,
    canLimit: true,
  })
  volumeConformance({
    title: 'of the provider daemon',
    runner: { describe, it },
    provider: () => new DaemonProvider(connection()),
    canLimit: true,
  })

  describe('broken ones are caught by the kit', () => {
    it.each(brokenVolumes)('$name: $what', async (broken) => {
      const passed: string[] = []
      for (const behaviour of volumeBehaviours.filter(({ id }) => broken.caughtBy.includes(id))) {
        const failure = await runVolumeBehaviour(behaviour, broken.make(engine), true).then(
          () => undefined,
          (error: Error) => error,
        )
        if (!failure) passed.push(behaviour.id)
        else expect(failure.message, behaviour.id).toBeTruthy()
        // The fault may keep the kit from cleaning up.
        for (const { sandboxId } of await engine.list()) await engine.destroy(sandboxId)
        for (const { name } of await engine.volumes.list()) await engine.volumes.remove(name)
      }
      expect(passed).toEqual([])
    })

    it('and every behaviour has a provider that violates it', () => {
      const caught = new Set(brokenVolumes.flatMap(({ caughtBy }) => caughtBy))
      expect(volumeBehaviours.map(({ id }) => id).filter((id) => !caught.has(id))).toEqual([])
    })
  })

  it('of the client have the names of the API', async () => {
    const client = new SandboxClient(connection())
    expect(await client.createVolume('data', { limitMb: 20 })).toMatchObject({
      name: 'data',
      status: 'ready',
      limitMb: 20,
      createdAt: expect.any(Date),
    })
    const volumes = [{ name: 'data', path: '/data' }]
    const { session, info } = await client.create({ volumes })
    expect(info.volumes).toEqual([{ name: 'data', path: '/data', readOnly: false }])
    const reader = await client.create({ volumes: [{ ...volumes[0]!, readOnly: true }] })
    expect(reader.info.volumes).toEqual([{ name: 'data', path: '/data', readOnly: true }])
    await session.exec('echo kept > /data/note')
    expect((await reader.session.exec('cat /data/note')).output).toBe('kept\n')
    expect((await client.getVolume('data')).writerSessionId).toBe(session.id)
    expect((await client.listVolumes()).map(({ name }) => name)).toEqual(['data'])
    await expect(client.createSession({ volumes })).rejects.toMatchObject({ code: 'conflict', status: 409 })
    await expect(client.deleteVolume('data')).rejects.toMatchObject({ code: 'conflict' })
    await session.destroy()
    await reader.session.destroy()
    expect([await client.deleteVolume('data'), await client.deleteVolume('data')]).toEqual([true, false])
    for (const name of ['..', '.', '', 'a/b', '?x'])
      expect([name, await client.deleteVolume(name)]).toEqual([name, false])
    const kept = await client.createSession()
    // `fetch` would resolve the dots.
    const fetching = new SandboxClient({ ...connection(), fetch: (input, init) => fetch(input, init) })
    expect(await fetching.deleteVolume(`../sessions/${kept.id}`)).toBe(false)
    expect((await kept.info()).status).toBe('running')
    await kept.destroy()
    await expect(client.getVolume('..')).rejects.toMatchObject({ code: 'not_found' })
  })

  it('of the provider daemon are checked before the request', async () => {
    const provider = new DaemonProvider(connection())
    for (const volumes of [{}, [null], [{ name: 'data' }], [{ name: 'data', target: '/d', readOnly: 'yes' }]])
      await expect(provider.create({ providerOptions: { volumes } as never })).rejects.toMatchObject({
        code: 'invalid_argument',
      })
  })

  it('of the command line', async () => {
    const env = { SANDKASTEN_URL: daemon.daemon.url, SANDKASTEN_API_KEY: daemon.key }
    const run = async (line: string) => {
      const ran = await inProcess(line.split(' '), env)
      return { ...ran, stdout: ran.stdout.trim() }
    }
    expect(await run('volumes create tools --size 20m')).toMatchObject({ code: 0, stdout: 'tools' })
    const { stdout: id } = await run('sessions create --volume tools:/data')
    await run(`exec --no-stdin ${id} -- echo kept > /data/note`)
    expect((await run(`sessions get ${id}`)).stdout).toMatch(/volumes: +tools:\/data$/m)
    const { stdout: reader } = await run('sessions create --volume tools:/data:ro')
    expect((await run(`sessions get ${reader}`)).stdout).toMatch(/volumes: +tools:\/data:ro$/m)
    const refused = await run('sessions create --volume tools:/data')
    expect(refused.code).not.toBe(0)
    expect(refused.stderr).toContain(id)
    expect(refused.stderr).toContain(':ro')
    expect((await run('volumes list')).stdout).toMatch(new RegExp(`^tools .*20.*MiB.*${id}`, 'm'))
    expect((await run('volumes show tools')).stdout).toMatch(new RegExp(`^writer: +${id}$`, 'm'))
    expect((await run('volumes rm tools')).stderr).toContain(id)
    await run(`sessions destroy ${id} ${reader}`)
    expect(await run('volumes rm tools')).toMatchObject({ code: 0, stdout: 'tools deleted' })
    expect((await run('volumes rm tools')).code).not.toBe(0)
    for (const bad of ['data', 'data:', 'data:data', ':/data', 'data:/data:no', 'data:/data:ro:x'])
      expect((await run(`sessions create --volume ${bad}`)).code, bad).not.toBe(0)
  })

  it('examples/daemon/volumes.ts prints the content of its .out file', async () => {
    const example = path.resolve(import.meta.dirname, '../../examples/daemon/volumes.ts')
    const { stdout } = await execute(process.execPath, ['--conditions=sandkasten-source', example], {
      env: {
        PATH: process.env.PATH,
        SANDKASTEN_URL: daemon.daemon.url,
        SANDKASTEN_API_KEY: daemon.key,
      },
    })
    expect(stdout).toBe(readFileSync(example.replace(/\.ts$/, '.out'), 'utf8'))
  })

  it.each(['sync', 'async'])('of the Python client, %s', async (kind) => {
    const script = `
import asyncio, sys
from sandkasten import SandboxClient, SandboxError
from sandkasten import sync

async def call(value):
    return await value if asyncio.iscoroutine(value) else value

async def main():
    client = SandboxClient() if sys.argv[1] == "async" else sync.SandboxClient()
    made = await call(client.create_volume(f"data-{sys.argv[1]}", limit_mb=20))
    print(made["name"], made["limit_mb"])
    volumes = [{"name": f"data-{sys.argv[1]}", "path": "/data"}]
    session = await call(client.create_session(volumes=volumes))
    await call(session.exec("echo kept > /data/note"))
    print((await call(client.get_volume(f"data-{sys.argv[1]}")))["writer_session_id"] == session.id)
    for attempt in (lambda: client.create_session(volumes=volumes), lambda: client.delete_volume(f"data-{sys.argv[1]}")):
        try:
            await call(attempt())
        except SandboxError as error:
            print(error.code, error.status)
    await call(session.destroy())
    print([one["name"] for one in await call(client.list_volumes()) if one["name"] == made["name"]], await call(client.delete_volume(f"data-{sys.argv[1]}")))
    await call(client.close())

asyncio.run(main())
`
    const clients = path.resolve(import.meta.dirname, '../../clients/python')
    const { stdout } = await execute('python3', ['-W', 'error', '-c', script, kind], {
      env: {
        PATH: process.env.PATH,
        PYTHONPATH: clients,
        PYTHONDONTWRITEBYTECODE: '1',
        SANDKASTEN_URL: daemon.daemon.url,
        SANDKASTEN_API_KEY: daemon.key,
      },
    })
    expect(stdout).toBe(`data-${kind} 20\nTrue\nconflict 409\nconflict 409\n['data-${kind}'] True\n`)
  })
})
