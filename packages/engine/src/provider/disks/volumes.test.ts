import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { VolumeMount } from '@sandkasten/sdk'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { reasonToSkip } from '../../isolators/oci/testing/bench.ts'
import { EngineProvider } from '../engine-provider.ts'

const root = await mkdtemp(path.join(tmpdir(), 'sandkasten-volumes-'))
afterAll(() => rm(root, { recursive: true, force: true }))
const skipped = await reasonToSkip()
const provider = new EngineProvider({ isolator: 'oci', root })

type Sandbox = Awaited<ReturnType<EngineProvider['create']>>
const withVolumes = (...volumes: VolumeMount[]) => provider.create({ providerOptions: { volumes } })

async function sh(sandbox: Sandbox, script: string): Promise<string> {
  const { stdout, stderr } = await sandbox.runCommand({ cmd: 'bash', args: ['-c', script] })
  return (stdout + stderr).trim()
}

describe('volumes', () => {
  beforeEach(({ skip }) => {
    if (skipped) skip(skipped)
  })
  afterEach(async () => {
    for (const { sandboxId } of await provider.list()) await provider.destroy(sandboxId)
    for (const { name } of await provider.volumes.list()) await provider.volumes.remove(name)
  })

  it('outlive sandboxes and keep the owners of files, whichever ids a sandbox has', async () => {
    expect(await provider.volumes.create('data')).toMatchObject({ name: 'data', createdAt: expect.any(Date) })
    const first = await withVolumes({ name: 'data', target: '/data' })
    expect(
      await sh(first, 'echo kept > /data/note; mkdir /data/d; stat -c "%u:%g %a" /data /data/note'),
    ).toBe('0:0 777\n1000:1000 644')
    expect((await provider.volumes.get('data')).writer).toBe(first.sandboxId)
    await first.destroy()
    const second = await withVolumes({ name: 'data', target: '/elsewhere' })
    expect(
      await sh(
        second,
        'cat /elsewhere/note; stat -c %u:%g /elsewhere/note; echo more >> /elsewhere/note; wc -l < /elsewhere/note',
      ),
    ).toBe('kept\n1000:1000\n2')
    const { sizeBytes } = await provider.volumes.get('data')
    expect(sizeBytes).toBeGreaterThan(0)
  })

  it('many sandboxes read while one writes, and see changes at once', async () => {
    await provider.volumes.create('shared')
    const writer = await withVolumes({ name: 'shared', target: '/shared' })
    const readers = await Promise.all(
      [1, 2].map(() => withVolumes({ name: 'shared', target: '/shared', readOnly: true })),
    )
    await sh(writer, 'echo news > /shared/note')
    for (const reader of readers) {
      expect(await sh(reader, 'cat /shared/note')).toBe('news')
      expect(await sh(reader, 'echo mine > /shared/note')).toContain('Read-only file system')
    }
    const conflict = {
      code: 'conflict',
      message: expect.stringContaining(writer.sandboxId),
      details: { volume: 'shared' },
    }
    const before = (await provider.list()).length
    await expect(withVolumes({ name: 'shared', target: '/shared' })).rejects.toMatchObject(conflict)
    expect((await provider.list()).length).toBe(before)
    // A stopped sandbox is no writer. When it starts again, it needs the claim again.
    await writer.stop()
    const next = await withVolumes({ name: 'shared', target: '/shared' })
    await expect(writer.start()).rejects.toMatchObject({ code: 'conflict' })
    await next.destroy()
    await writer.start()
    expect(await sh(writer, 'cat /shared/note')).toBe('news')
  })

  it('only one of several concurrent writers gets the volume', async () => {
    await provider.volumes.create('wanted')
    const results = await Promise.allSettled(
      [1, 2, 3, 4].map(() => withVolumes({ name: 'wanted', target: '/v' })),
    )
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    for (const result of results)
      if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'conflict' })
  })

  it('a killed writer loses its claim on the volume', async () => {
    await provider.volumes.create('taken')
    const writer = await withVolumes({ name: 'taken', target: '/v' })
    const state = path.join(root, 'sandboxes', writer.sandboxId, 'disk/shim.json')
    process.kill(JSON.parse(readFileSync(state, 'utf8')).pid, 'SIGKILL')
    await expect.poll(async () => (await writer.info()).rawStatus, { timeout: 10_000 }).toBe('crashed')
    const next = await withVolumes({ name: 'taken', target: '/v' })
    expect(await sh(next, 'echo mine > /v/note; cat /v/note')).toBe('mine')
  })

  it('cannot be removed while in use, created twice, or mounted if missing', async () => {
    await provider.volumes.create('used')
    await expect(provider.volumes.create('used')).rejects.toMatchObject({ code: 'conflict' })
    const sandbox = await withVolumes({ name: 'used', target: '/v', readOnly: true })
    await sandbox.stop()
    await expect(provider.volumes.remove('used')).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining(sandbox.sandboxId),
    })
    await sandbox.destroy()
    expect([await provider.volumes.remove('used'), await provider.volumes.remove('used')]).toEqual([
      true,
      false,
    ])
    await expect(provider.volumes.get('used')).rejects.toMatchObject({ code: 'not_found' })
    await expect(withVolumes({ name: 'used', target: '/v' })).rejects.toMatchObject({
      code: 'not_found',
      hint: expect.stringContaining('volumes.create'),
    })
    expect(await provider.list()).toEqual([])
  })

  it.each([
    [{ name: '../etc', target: '/v' }, 'name'],
    [{ name: '', target: '/v' }, 'name'],
    [{ name: 'lock', target: '/v' }, 'name'],
    [{ name: 'ok', target: 'v' }, 'target'],
    [{ name: 'ok', target: '/proc/v' }, '/proc'],
  ])('rejects %j', async (volume, word) => {
    await provider.volumes.create('ok')
    await expect(withVolumes(volume)).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining(word),
    })
  })

  it('do not exist on the isolator `process`', async () => {
    const { volumes } = new EngineProvider({ isolator: 'process', root: path.join(root, 'process') })
    await expect(volumes.list()).rejects.toMatchObject({ code: 'unsupported' })
  })
})
