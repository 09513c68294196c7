import {
  closeSync,
  mkdtempSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { reasonToSkip } from '../../isolators/oci/testing/bench.ts'
import { EngineProvider } from '../engine-provider.ts'
import { leftoversOf } from '../test-helper.ts'

/** Damage by a broken disk, a power cut or `rm` is reported with a hint and does not affect other sandboxes. */
const skipped = await reasonToSkip()
const root = mkdtempSync(path.join(tmpdir(), 'sandkasten-damage-'))
const ids = path.join(root, 'ids')
const provider = new EngineProvider({ isolator: 'oci', root, oci: { ids: { folder: ids } } })
const folderOf = ({ sandboxId }: { sandboxId: string }) => path.join(root, 'sandboxes', sandboxId)

describe('damaged and missing files', () => {
  beforeEach(({ skip }) => {
    if (skipped) skip(skipped)
  })
  afterEach(async () => {
    for (const { sandboxId } of await provider.list()) await provider.destroy(sandboxId)
  })
  afterAll(async () => {
    await provider.close()
    rmSync(root, { recursive: true, force: true })
  })

  it.each([
    [{}, 'disk/disk/upper'],
    [{ resources: { diskMb: 16 } }, 'disk/disk.ext4'],
  ])('a missing disk (%o) is not treated as an empty one', async (options, name) => {
    const sandbox = await provider.create(options)
    await sandbox.runCommand({ cmd: 'sh', args: ['-c', 'echo kept > kept'] })
    await sandbox.stop()
    const disk = path.join(folderOf(sandbox), name)
    renameSync(disk, `${disk}.elsewhere`)
    await expect(sandbox.start()).rejects.toMatchObject({
      code: 'internal',
      hint: expect.stringContaining(`Put ${disk} back`),
    })
    expect(await sandbox.status()).toBe('stopped')
    renameSync(`${disk}.elsewhere`, disk)
    await sandbox.start()
    expect((await sandbox.runCommand({ cmd: 'cat', args: ['kept'] })).stdout).toBe('kept\n')
  })

  it('a limited disk with a broken file system reports it and can be destroyed', async () => {
    const sandbox = await provider.create({ resources: { diskMb: 16 } })
    await sandbox.stop()
    const file = openSync(path.join(folderOf(sandbox), 'disk/disk.ext4'), 'r+')
    writeSync(file, Buffer.alloc(8192), 0, 8192, 0)
    closeSync(file)
    const broken = { code: 'internal', hint: expect.stringContaining('fsck') }
    await expect(sandbox.start()).rejects.toMatchObject({
      ...broken,
      message: expect.stringContaining('disk.ext4'),
    })
    await expect(sandbox.snapshot()).rejects.toMatchObject(broken)
    expect(readdirSync(path.join(root, 'layers')).filter((name) => name !== 'holds')).toEqual([])
    expect(await sandbox.destroy()).toBe(true)
    expect(leftoversOf(sandbox.sandboxId)).toEqual([])
  })

  it.each(['', '{"version":1,', 'null'])(
    'a damaged record %j hides no other sandbox and can be destroyed',
    async (text) => {
      const other = await provider.create({ name: 'other' })
      const sandbox = await provider.create()
      writeFileSync(path.join(folderOf(sandbox), 'sandbox.json'), text)
      const damaged = { code: 'internal', hint: expect.stringContaining('destroy the sandbox') }
      await expect(sandbox.runCommand({ cmd: 'true' })).rejects.toMatchObject(damaged)
      const found = new Map((await provider.list()).map((info) => [info.sandboxId, info]))
      expect(found.get(sandbox.sandboxId)).toMatchObject({ status: 'failed', rawStatus: 'damaged' })
      expect(found.get(other.sandboxId)).toMatchObject({ status: 'running', name: 'other' })
      // The damaged record may name any layer, so nothing is removed until the user decides.
      await other.snapshot().then(({ snapshotId }) => provider.deleteSnapshot(snapshotId))
      await expect(provider.sweep()).rejects.toMatchObject(damaged)
      expect(await sandbox.destroy()).toBe(true)
      expect(leftoversOf(sandbox.sandboxId)).toEqual([])
      expect(await provider.sweep()).toEqual([])
      expect(readdirSync(ids)).toHaveLength(1)
      expect(readdirSync(path.join(root, 'layers')).filter((name) => name !== 'holds')).toEqual([])
    },
  )

  it('a missing runner binary is an error, and a later sweep removes the rest', async () => {
    const options = {
      isolator: 'oci',
      root,
      oci: { ids: { folder: ids }, runner: '/nowhere/runner' },
    } as const
    await using other = new EngineProvider(options)
    await expect(other.create()).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining(path.join(root, 'sandboxes')),
      hint: expect.stringContaining('doctor'),
    })
    expect(await other.list()).toEqual([])
    expect(await provider.sweep()).toHaveLength(1)
    expect(await provider.list()).toEqual([])
    expect(readdirSync(ids)).toEqual([])
  })
})
