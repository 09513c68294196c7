import { describe, expect, it } from 'vitest'
import { engineDefaults, planOf } from './spec.ts'

const noImages = () => {
  throw new Error('no image was asked for')
}
const nothing = { labels: {}, envVars: {}, deferReady: false }

describe('planOf', () => {
  it('uses the defaults of SPECIFICATION.md', async () => {
    const MiB = 1024 * 1024
    expect(await planOf(nothing, engineDefaults, noImages)).toMatchObject({
      image: 'host',
      limits: { memoryBytes: 1024 * MiB, cpus: 1, pids: 512 },
      mounts: [],
      network: 'none',
    })
    // On the disk.
    expect((await planOf(nothing, engineDefaults, noImages)).limits).not.toHaveProperty('tmpBytes')
  })

  it.each([
    [{ tmp: 'memory' }, 256],
    [{ tmpMb: 3 }, 3],
    [{ tmp: 'memory', tmpMb: 4 }, 4],
    [{ tmp: 'disk' }, undefined],
  ])('puts /tmp where %j says', async (providerOptions, megabytes) => {
    const { limits } = await planOf({ ...nothing, providerOptions }, engineDefaults, noImages)
    expect(limits.tmpBytes).toBe(megabytes && megabytes * 1024 * 1024)
  })

  it.each([{ tmp: 'ram' }, { tmp: 'disk', tmpMb: 1 }])('rejects %j', async (providerOptions) => {
    await expect(planOf({ ...nothing, providerOptions }, engineDefaults, noImages)).rejects.toMatchObject({
      code: 'invalid_argument',
    })
  })

  it('uses the given options', async () => {
    const plan = await planOf(
      {
        ...nothing,
        image: '/rootfs',
        resources: { memoryMb: 64, vcpus: 0.5 },
        network: 'open',
        providerOptions: { pids: 9, tmpMb: 1 },
      },
      engineDefaults,
      noImages,
    )
    expect(plan).toMatchObject({
      image: { rootfs: '/rootfs' },
      limits: { memoryBytes: 64 * 1024 * 1024, cpus: 0.5, pids: 9, tmpBytes: 1024 * 1024 },
      network: 'open',
    })
  })
})
