import { execFileSync } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { VolumeMount } from '@sandkasten/sdk'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { reasonToSkip } from '../../isolators/oci/testing/bench.ts'
import { EngineProvider } from '../engine-provider.ts'

const root = await mkdtemp(path.join(tmpdir(), 'sandkasten-limited-volumes-'))
const skipped = await reasonToSkip()
const provider = new EngineProvider({ isolator: 'oci', root })
afterAll(async () => {
  await provider.close()
  await rm(root, { recursive: true, force: true })
})

type Sandbox = Awaited<ReturnType<EngineProvider['create']>>
const withVolumes = (...volumes: VolumeMount[]) => provider.create({ providerOptions: { volumes } })

async function sh(sandbox: Sandbox, script: string): Promise<string> {
  const { stdout, stderr } = await sandbox.runCommand({ cmd: 'bash', args: ['-c', script] })
  return (stdout + stderr).trim()
}

const fileOf = (name: string) => path.join(root, 'volumes', name, 'data.ext4')
const devicesOf = (name: string) =>
  execFileSync('losetup', ['-j', fileOf(name)], { encoding: 'utf8' })
    .split('\n')
    .filter(Boolean)

describe('volumes with a size limit', () => {
  beforeEach(({ skip }) => {
    if (skipped) skip(skipped)
    if (!provider.limitsDisks) skip('needs root, loop devices and e2fsprogs')
  })
  afterEach(async () => {
    for (const { sandboxId } of await provider.list()) await provider.destroy(sandboxId)
    for (const { name } of await provider.volumes.list()) await provider.volumes.remove(name)
  })

  it('hold that much and no more, and deleting makes room', async () => {
    const made = await provider.volumes.create('small', { limitMb: 16 })
    expect(made).toMatchObject({ name: 'small', limitMb: 16 })
    const sandbox = await withVolumes({ name: 'small', target: '/data' })
    expect(await sh(sandbox, 'stat -c "%u:%g %a" /data; ls -A /data')).toBe('0:0 777')
    expect(await sh(sandbox, 'head -c 10M /dev/urandom > /data/one && echo fits')).toBe('fits')
    expect(await sh(sandbox, 'head -c 10M /dev/urandom > /data/two && echo fits')).toContain(
      'No space left on device',
    )
    expect(await sh(sandbox, 'echo mine > /workspace/note && cat /workspace/note')).toBe('mine')
    expect((await provider.volumes.get('small')).sizeBytes).toBeLessThanOrEqual(16 * 1024 * 1024)
    expect(await sh(sandbox, 'rm /data/*; head -c 10M /dev/urandom > /data/three && echo fits')).toBe('fits')
  })

  it('give the space of deleted files back to the machine', async () => {
    await provider.volumes.create('shrinks', { limitMb: 64 })
    const sandbox = await withVolumes({ name: 'shrinks', target: '/data' })
    const blocks = () => statSync(fileOf('shrinks')).blocks * 512
    await sh(sandbox, 'head -c 40M /dev/urandom > /data/large; sync /data/large')
    expect(blocks()).toBeGreaterThan(40_000_000)
    expect(await sh(sandbox, 'rm /data/large; sync -f /data')).toBe('')
    await expect.poll(blocks, { timeout: 10_000 }).toBeLessThan(10_000_000)
  })

  it('are one file system for all sandboxes, however many start at the same time', async () => {
    await provider.volumes.create('shared', { limitMb: 32 })
    const first = await withVolumes({ name: 'shared', target: '/data' })
    await sh(first, 'echo kept > /data/note; mkdir /data/folder')
    await first.destroy()
    const mounts = [false, true, true, true, true].map((readOnly) => ({
      name: 'shared',
      target: '/data',
      readOnly,
    }))
    const [writer, ...readers] = await Promise.all(mounts.map((mount) => withVolumes(mount)))
    expect(devicesOf('shared')).toHaveLength(1)
    await sh(writer!, 'echo news >> /data/note')
    for (const reader of readers) {
      expect(await sh(reader, 'cat /data/note; stat -c %u:%g /data/folder')).toBe('kept\nnews\n1000:1000')
      expect(await sh(reader, 'echo mine > /data/note')).toContain('Read-only file system')
    }
    await Promise.all([writer, ...readers].map((sandbox) => sandbox!.destroy()))
    await expect.poll(() => devicesOf('shared'), { timeout: 10_000 }).toEqual([])
  })

  it('keep their content when a sandbox is killed, and leave no loop device', async () => {
    await provider.volumes.create('killed', { limitMb: 16 })
    const writer = await withVolumes({ name: 'killed', target: '/v' })
    await sh(writer, 'echo kept > /v/note; sync /v/note')
    const state = path.join(root, 'sandboxes', writer.sandboxId, 'disk/shim.json')
    process.kill(JSON.parse(readFileSync(state, 'utf8')).pid, 'SIGKILL')
    await expect.poll(async () => (await writer.info()).rawStatus, { timeout: 10_000 }).toBe('crashed')
    const next = await withVolumes({ name: 'killed', target: '/v' })
    expect(await sh(next, 'cat /v/note; echo more >> /v/note; cat /v/note')).toBe('kept\nkept\nmore')
    await next.destroy()
    await writer.destroy()
    await expect.poll(() => devicesOf('killed'), { timeout: 10_000 }).toEqual([])
  })

  it.each([0, 7, 8.5, Number.NaN, 1e9])('rejects the limit %d', async (limitMb) => {
    await expect(provider.volumes.create('bad', { limitMb })).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining('limit of the volume'),
    })
    expect(await provider.volumes.list()).toEqual([])
  })
})
