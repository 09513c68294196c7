import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SandboxError, type SandboxHandle } from '@sandkasten/sdk'
import Docker from 'dockerode'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import {
  dockerMissing,
  type PrivateDaemon,
  removeDaemonFolder,
  startDockerd,
} from '../../isolators/docker/testing/daemons.ts'
import { importRootfs } from '../../isolators/docker/testing/rootfs.ts'
import type { EngineCapabilities } from '../capabilities.ts'
import { EngineProvider, type EngineProviderOptions } from '../engine-provider.ts'

const reason = dockerMissing()
let folder: string
let daemon: PrivateDaemon
let docker: Docker
let options: EngineProviderOptions

beforeEach((ctx) => ctx.skip(reason !== undefined, reason))
beforeAll(async () => {
  if (reason !== undefined) return
  folder = mkdtempSync(join(tmpdir(), 'skt-docker-'))
  daemon = await startDockerd(folder)
  docker = new Docker({ socketPath: daemon.socketPath })
  options = {
    isolator: 'docker',
    root: join(folder, 'root'),
    docker: { socketPath: daemon.socketPath, runFolder: join(folder, 'run') },
  }
}, 120_000)
afterAll(async () => {
  await daemon?.stop()
  if (folder) removeDaemonFolder(folder)
}, 60_000)

type Sandbox = SandboxHandle<EngineCapabilities>

it('reports the weaknesses of the sandbox in every info', async () => {
  const provider = new EngineProvider(options)
  const sandbox = await provider.create()
  expect((await sandbox.info()).weaker).toEqual(
    expect.arrayContaining([expect.stringContaining('this machine’s root')]),
  )
  await sandbox.destroy()
})

it('uses the image `host` for a recipe until the daemon has its image', async () => {
  const warnings: string[] = []
  const provider = new EngineProvider({ ...options, onWarning: (message) => warnings.push(message) })
  for (const round of [1, 2]) {
    const sandbox = await provider.create({ image: 'sandbox-runtime:base' })
    expect(await sandbox.runCommand({ cmd: 'echo', args: [String(round)] })).toMatchObject({ exitCode: 0 })
    await sandbox.destroy()
  }
  expect(warnings).toEqual([expect.stringContaining('docker build -t sandbox-runtime:base images/base')])
  await importRootfs(docker, 'sandbox-runtime:base')
  const sandbox = await provider.create({ image: 'sandbox-runtime:base' })
  const [container] = await docker.listContainers({ filters: { name: [sandbox.sandboxId] } })
  expect(container!.Image).toBe('sandbox-runtime:base')
  await sandbox.destroy()
  await docker.getImage('sandbox-runtime:base').remove()
})

it('removes the image of a deleted snapshot with its last sandbox, and that of a fork with the last fork', async () => {
  const provider = new EngineProvider(options)
  const images = async () =>
    (await docker.listImages({ filters: { label: ['dev.sandkasten.use=snapshot'] } })).length
  const sandbox = await provider.create({ resources: { memoryMb: 128 } })
  await sandbox.files.writeFile('note', 'x'.repeat(5000))
  const { snapshotId } = await sandbox.snapshot({ name: 'kept' })
  const manager = provider as unknown as {
    listSnapshots(): Promise<{ sizeBytes?: number; name?: string }[]>
    deleteSnapshot(id: string): Promise<boolean>
  }
  const [info] = await manager.listSnapshots()
  expect(info).toMatchObject({ name: 'kept' })
  expect(info!.sizeBytes).toBeGreaterThanOrEqual(5000)
  const copy = await provider.create({ snapshotId })
  expect(await manager.deleteSnapshot(snapshotId)).toBe(true)
  expect(await manager.listSnapshots()).toEqual([])
  await expect(provider.create({ snapshotId })).rejects.toMatchObject({ code: 'not_found' })
  // The sandbox still needs the image, also for another start.
  expect(await images()).toBe(1)
  await copy.stop()
  await copy.start()
  expect(await copy.files.readFile('note', 'utf8')).toHaveLength(5000)

  const [one, two] = (await sandbox.fork({ count: 2 })) as [Sandbox, Sandbox]
  expect(await manager.listSnapshots()).toEqual([])
  const limit = await one.runCommand({ cmd: 'cat', args: ['/sys/fs/cgroup/memory/memory.limit_in_bytes'] })
  expect(limit.stdout).toBe('')
  const [fork] = await docker.listContainers({ filters: { name: [one.sandboxId] } })
  const { HostConfig } = await docker.getContainer(fork!.Id).inspect()
  expect(HostConfig.Memory).toBe(128 * 1024 * 1024)
  await sandbox.destroy()
  await one.destroy()
  expect(await two.files.readFile('note', 'utf8')).toHaveLength(5000)
  expect(await images()).toBe(2)
  await two.destroy()
  await copy.destroy()
  expect(await images()).toBe(0)
  expect(await docker.listContainers({ all: true })).toEqual([])
})

it.each([
  [{ image: 'no-such:1' }, 'not_found', 'no-such:1'],
  [{ image: '/some/folder' }, 'invalid_argument', 'folder'],
  [{ resources: { diskMb: 10 } }, 'unsupported', 'disk'],
  [{ providerOptions: { volumes: [{ name: 'data', target: '/data' }] } }, 'unsupported', 'volumes'],
  [{ providerOptions: { netwrok: 'open' } }, 'invalid_argument', 'netwrok'],
])('rejects %j and leaves nothing behind', async (wanted, code, word) => {
  const provider = new EngineProvider(options)
  await expect(provider.create(wanted)).rejects.toMatchObject({
    code,
    message: expect.stringContaining(word),
  })
  expect(await provider.list()).toEqual([])
  expect(await docker.listContainers({ all: true })).toEqual([])
})

it('declares no snapshots if each sandbox has its own ids', () => {
  const provider = new EngineProvider({ ...options, docker: { ...options.docker, userns: 'auto' } })
  expect(provider.capabilities).not.toHaveProperty('snapshot')
  expect(provider.createOptions.has('snapshotId')).toBe(false)
  expect(new EngineProvider(options).createOptions.has('snapshotId')).toBe(true)
})

it('auto chooses docker if a daemon exists and oci cannot work, and reports why', () => {
  const { decision } = new EngineProvider({
    ...options,
    isolator: 'auto',
    oci: { runtime: 'no-such-runtime' },
  })
  expect(decision).toMatchObject({ isolator: 'docker', reason: expect.stringContaining('no-such-runtime') })
})

it('an unreachable daemon is an error, and running sandboxes are found when it is back', async () => {
  const provider = new EngineProvider(options)
  const sandbox = await provider.create()
  await sandbox.files.writeFile('note', 'kept')
  await daemon.stop()
  const late = new EngineProvider(options)
  const error = await late.get(sandbox.id).catch((error) => error)
  expect(SandboxError.is(error, 'unavailable') && error.hint).toContain('systemctl start docker')
  daemon = await startDockerd(folder)
  // The sandbox ended with its daemon, but its disk is kept.
  await expect.poll(() => sandbox.status(), { timeout: 20_000 }).toBe('stopped')
  const again = await late.get(sandbox.id)
  expect(await again.files.readFile('note', 'utf8')).toBe('kept')
  await again.destroy()
}, 120_000)
